//! Who we are: the record of our site, and the key that we sign with.

use std::fmt;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::{AwsLcProvider, Hash, SigningKey};
use tendot_proto::record::Site;
use tendot_registry::Share;
use tokio_rustls::TlsAcceptor;

use super::tls;

/// Why there is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
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

/// The record of our site, and the key that belongs to it.
pub struct OwnSite {
    site: Site<'static>,
    place: usize,
    bytes: Vec<u8>,
    key: Box<dyn SigningKey>,
    tls: TlsAcceptor,
}

impl OwnSite {
    /// A site with one server; or with several, of which we are the one that has the public part of this key.
    pub fn new(site: Site<'static>, key: &PrivateKey) -> Result<Self, KeyError> {
        let place = if site.servers.len() > 1 { place(&site, key)? } else { 0 };
        let tls = tls::acceptor(key)?;
        let bytes = site.to_bytes();
        let key = key.signing_key(&AwsLcProvider).map_err(|_| KeyError::Unusable)?;
        Ok(Self { site, place, bytes, key, tls })
    }

    /// A new key: RSA of 2048 bits, which all that is deployed can verify.
    pub fn make_key() -> Result<PrivateKey, KeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::NotMade)?;
        let wrapped: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::NotMade)?;
        // What PKCS #8 puts before an RSAPrivateKey of this size.
        let der = wrapped.as_ref().get(26..).ok_or(KeyError::NotMade)?;
        PrivateKey::from_der(der).map_err(|_| KeyError::NotMade)
    }

    /// The record.
    pub const fn site(&self) -> &Site<'static> {
        &self.site
    }

    /// Which of the site's servers we are.
    pub const fn place(&self) -> usize {
        self.place
    }

    /// The names that we keep, and others do not; none if we keep all.
    pub fn share(&self) -> Option<Share> {
        Share::of(&self.site, self.place)
    }

    /// The data of the record as the value has it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Signs a message, by SHA-256.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.key.sign(Hash::Sha256, message).ok()
    }

    pub(super) fn key(&self) -> &dyn SigningKey {
        &*self.key
    }

    pub(super) const fn tls(&self) -> &TlsAcceptor {
        &self.tls
    }
}

fn place(site: &Site<'_>, key: &PrivateKey) -> Result<usize, KeyError> {
    let public = key.public_key().ok_or(KeyError::Unusable)?.to_bytes();
    let mut places = (0..).zip(&site.servers).filter(|(_, server)| *server.public_key == *public);
    match (places.next(), places.count()) {
        (Some((place, _)), 0) => Ok(place),
        (first, others) => Err(KeyError::NotInSite { found: usize::from(first.is_some()) + others }),
    }
}

impl fmt::Debug for OwnSite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.site.fmt(formatter)
    }
}
