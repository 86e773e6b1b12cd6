//! Who we are: the record of our site, and the key that we sign with.

use std::fmt;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::{AwsLcProvider, HashAlgorithm, SigningKey};
use tendot_proto::record::Site;
use tendot_registry::HashPartition;
use tokio_rustls::TlsAcceptor;

use super::tls;

/// Reason a site key cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteKeyError {
    /// None could be made.
    #[error("a key can't be made")]
    NotMade,
    /// It cannot sign.
    #[error("the key can't sign: an RSA key with its primes, of at least 2048 bits, can")]
    Unusable,
    /// It is not that of exactly one server of the site.
    #[error("the site has {found} servers with our key, and we have to be one of them")]
    NotInSite {
        /// How many have it.
        found: usize,
    },
}

/// Site record of this server, and its private key.
pub struct OwnSite {
    site: Site<'static>,
    place: usize,
    bytes: Vec<u8>,
    key: Box<dyn SigningKey>,
    tls: TlsAcceptor,
}

impl OwnSite {
    /// A site with one server; or with several, of which we are the one that has the public part of this key.
    pub fn new(site: Site<'static>, key: &PrivateKey) -> Result<Self, SiteKeyError> {
        let place = if site.servers.len() > 1 { place(&site, key)? } else { 0 };
        let tls = tls::acceptor(key)?;
        let bytes = site.to_bytes();
        let key = key.signing_key(&AwsLcProvider).map_err(|_| SiteKeyError::Unusable)?;
        Ok(Self { site, place, bytes, key, tls })
    }

    /// A new key: RSA of 2048 bits, which all that is deployed can verify.
    pub fn generate_key() -> Result<PrivateKey, SiteKeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| SiteKeyError::NotMade)?;
        let wrapped: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| SiteKeyError::NotMade)?;
        // What PKCS #8 puts before an RSAPrivateKey of this size.
        let der = wrapped.as_ref().get(26..).ok_or(SiteKeyError::NotMade)?;
        PrivateKey::from_der(der).map_err(|_| SiteKeyError::NotMade)
    }

    /// The record.
    pub const fn site(&self) -> &Site<'static> {
        &self.site
    }

    /// Which of the site's servers we are.
    pub const fn server_index(&self) -> usize {
        self.place
    }

    /// The names that we keep, and others do not; none if we keep all.
    pub fn partition(&self) -> Option<HashPartition> {
        HashPartition::new(&self.site, self.place)
    }

    /// The data of the record as the value has it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Signs a message, by SHA-256.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.key.sign(HashAlgorithm::Sha256, message).ok()
    }

    pub(super) fn key(&self) -> &dyn SigningKey {
        &*self.key
    }

    pub(super) const fn tls(&self) -> &TlsAcceptor {
        &self.tls
    }
}

fn place(site: &Site<'_>, key: &PrivateKey) -> Result<usize, SiteKeyError> {
    let public = key.public_key().ok_or(SiteKeyError::Unusable)?.to_bytes();
    let mut places = (0..).zip(&site.servers).filter(|(_, server)| *server.public_key == *public);
    match (places.next(), places.count()) {
        (Some((place, _)), 0) => Ok(place),
        (first, others) => Err(SiteKeyError::NotInSite { found: usize::from(first.is_some()) + others }),
    }
}

impl fmt::Debug for OwnSite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.site.fmt(formatter)
    }
}
