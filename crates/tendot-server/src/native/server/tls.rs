//! TLS on the native port, with a self-signed certificate.
//!
//! Clients know the key from the site record, so no CA is needed.

use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::KeyPair;
use rcgen::{CertificateParams, DnType, PKCS_RSA_SHA256};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tendot_proto::auth::PrivateKey;
use tokio_rustls::TlsAcceptor;

use crate::native::SiteKeyError;

/// First byte of a TLS handshake record. No protocol version of a message is 22.
pub(crate) const TLS_HANDSHAKE_BYTE: u8 = 0x16;

/// TLS acceptor with a minimal self-signed certificate for this key.
pub(crate) fn acceptor(key: &PrivateKey) -> Result<TlsAcceptor, SiteKeyError> {
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
