//! Site record of this server, and its private key.

use std::fmt;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::{AwsLcProvider, HashAlgorithm, SigningKey};
use tendot_proto::record::Site;
use tendot_registry::HashPartition;
use tokio_rustls::TlsAcceptor;

use crate::native::server::tls;

/// Reason a site key cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteKeyError {
    /// A key could not be generated.
    #[error("key generation failed")]
    GenerationFailed,
    /// The key cannot sign.
    #[error("unusable key: need an RSA key of at least 2048 bits with its primes")]
    Unusable,
    /// The key does not belong to exactly one server of the site.
    #[error("{found} servers of the site have this server's key; exactly one must")]
    NotInSite {
        /// Number of servers with this key.
        found: usize,
    },
}

/// Site record of this server, and its private key.
pub struct OwnSite {
    site: Site<'static>,
    server_index: usize,
    bytes: Vec<u8>,
    key: Box<dyn SigningKey>,
    previous: Option<PreviousSiteKey>,
    tls: TlsAcceptor,
}

/// Key before a roll-over, for clients that still have the site record with its public part.
struct PreviousSiteKey {
    /// Serial number of the last site record with that key.
    serial: u16,
    key: Box<dyn SigningKey>,
}

impl PreviousSiteKey {
    /// Whether the site record with this serial number has the previous key: the last one with it, and older ones, such as that
    /// before the roll-over of another server of the site. Serial numbers wrap at `i16::MAX`; 0 and `u16::MAX` stand for none.
    const fn is_published_in(&self, serial: u16, current: u16) -> bool {
        let is_older = if self.serial < current { serial > 0 } else { serial > current };
        serial == self.serial || (is_older && serial < self.serial)
    }
}

impl OwnSite {
    /// Creates the site. Among several servers, this one is identified by the public part of `key`.
    pub fn new(site: Site<'static>, key: &PrivateKey) -> Result<Self, SiteKeyError> {
        let server_index = if site.servers.len() > 1 { find_server_index(&site, key)? } else { 0 };
        let tls = tls::acceptor(key)?;
        let bytes = site.to_bytes();
        let key = key.signing_key(&AwsLcProvider).map_err(|_| SiteKeyError::Unusable)?;
        Ok(Self { site, server_index, bytes, key, previous: None, tls })
    }

    /// Keeps the key of an earlier site record in use: requests that name its serial number or an older one get responses signed
    /// with it, so that clients accept them until they have the new record.
    pub fn with_previous_key(mut self, serial: u16, key: &PrivateKey) -> Result<Self, SiteKeyError> {
        let key = key.signing_key(&AwsLcProvider).map_err(|_| SiteKeyError::Unusable)?;
        self.previous = Some(PreviousSiteKey { serial, key });
        Ok(self)
    }

    /// Generates a 2048-bit RSA key, which all deployed clients can verify.
    pub fn generate_key() -> Result<PrivateKey, SiteKeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| SiteKeyError::GenerationFailed)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| SiteKeyError::GenerationFailed)?;
        PrivateKey::from_pkcs8_der(der.as_ref()).map_err(|_| SiteKeyError::GenerationFailed)
    }

    /// Site record.
    pub const fn site(&self) -> &Site<'static> {
        &self.site
    }

    /// Index of this server in the site.
    pub const fn server_index(&self) -> usize {
        self.server_index
    }

    /// Hash partition of this server; `None` if it stores all names.
    pub fn partition(&self) -> Option<HashPartition> {
        HashPartition::new(&self.site, self.server_index)
    }

    /// Encoded site record.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Signs a message with SHA-256.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.key.sign(HashAlgorithm::Sha256, message).ok()
    }

    /// Key for responses to a client that has the site record with this serial number.
    pub(crate) fn key_for_serial(&self, serial: u16) -> &dyn SigningKey {
        match &self.previous {
            Some(previous) if previous.is_published_in(serial, self.site.serial) => &*previous.key,
            _ => &*self.key,
        }
    }

    pub(crate) const fn tls(&self) -> &TlsAcceptor {
        &self.tls
    }
}

fn find_server_index(site: &Site<'_>, key: &PrivateKey) -> Result<usize, SiteKeyError> {
    let public = key.public_key().ok_or(SiteKeyError::Unusable)?.to_bytes();
    let mut matches = (0..).zip(&site.servers).filter(|(_, server)| *server.public_key == *public);
    match (matches.next(), matches.count()) {
        (Some((index, _)), 0) => Ok(index),
        (first, others) => Err(SiteKeyError::NotInSite { found: usize::from(first.is_some()) + others }),
    }
}

impl fmt::Debug for OwnSite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.site.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_key_by_serial() {
        let (old, new) = (OwnSite::generate_key().unwrap(), OwnSite::generate_key().unwrap());
        let is_old = |previous: u16, current: u16, serial: u16| {
            let site = Site { serial: current, servers: Vec::new(), ..Site::default() };
            let site = OwnSite::new(site, &new).unwrap().with_previous_key(previous, &old).unwrap();
            let signature = site.key_for_serial(serial).sign(HashAlgorithm::Sha256, b"message").unwrap();
            signature
                == old.signing_key(&AwsLcProvider).unwrap().sign(HashAlgorithm::Sha256, b"message").unwrap()
        };
        for (serial, expected) in
            [(0, false), (1, true), (3, true), (4, false), (5, false), (u16::MAX, false)]
        {
            assert_eq!(is_old(3, 5, serial), expected, "{serial}");
        }
        // After the largest serial number comes 1.
        let largest = i16::MAX.cast_unsigned();
        for (serial, expected) in [(largest, true), (largest - 1, true), (1, false), (2, false), (0, false)] {
            assert_eq!(is_old(largest, 2, serial), expected, "{serial}");
        }
    }
}
