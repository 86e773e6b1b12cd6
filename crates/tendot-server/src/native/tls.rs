//! TLS on the port of the native protocol, with a certificate of our own.
//!
//! Who asks for it knows our key from the record of our site, so nobody else has to vouch for it.

use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::KeyPair;
use rcgen::{CertificateParams, DnType, PKCS_RSA_SHA256};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tendot_proto::auth::PrivateKey;
use tokio_rustls::TlsAcceptor;

use super::SiteKeyError;

/// The first byte of a connection that begins with a handshake. No version of a message is 22.
pub(super) const TLS_HANDSHAKE_BYTE: u8 = 0x16;

/// Speaks TLS with this key, in a certificate that has nothing else in it.
pub(super) fn acceptor(key: &PrivateKey) -> Result<TlsAcceptor, SiteKeyError> {
    let der = key.to_der().ok_or(SiteKeyError::Unusable)?;
    let pair = KeyPair::from_der(&der).map_err(|_| SiteKeyError::Unusable)?;
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| SiteKeyError::Unusable)?;
    let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
    let signer = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_RSA_SHA256);
    let signer = signer.map_err(|_| SiteKeyError::Unusable)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "anonymous");
    let certificate = parameters.self_signed(&signer).map_err(|_| SiteKeyError::Unusable)?;
    let config = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|_| SiteKeyError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(pkcs8))
        .map_err(|_| SiteKeyError::Unusable)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
