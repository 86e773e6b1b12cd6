//! TLS with a pinned server key, without a CA.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rsa::PublicKeyComponents;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tendot_proto::record::{KeyComponents, PublicKey};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::stream::{CONNECT_TIMEOUT, connect_tcp};

/// TLS connection to the server that owns `key`, which is encoded as in its site record.
///
/// If it is not an RSA key, the certificate is not verified: old servers have another key in their certificate than in their
/// site record.
pub(super) async fn connect_tls(
    to: SocketAddr,
    domain: Option<&str>,
    key: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let config = pinned_key_config(rsa_public_key_info(key)?)?;
    let stream = connect_tcp(to).await?;
    let domain = domain.and_then(|domain| ServerName::try_from(domain.to_owned()).ok());
    let name = domain.unwrap_or_else(|| to.ip().into());
    timeout(CONNECT_TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await?
}

/// TLS configuration that accepts only the RSA key `key`; another type of key is an error.
#[cfg(feature = "http")]
pub(crate) fn pinned_rsa_key_config(key: &[u8]) -> io::Result<ClientConfig> {
    let not_rsa = || io::Error::new(io::ErrorKind::InvalidData, "not an RSA key");
    pinned_key_config(Some(rsa_public_key_info(key)?.ok_or_else(not_rsa)?))
}

/// TLS configuration that accepts only this key, or every key if it is `None`.
fn pinned_key_config(public_key_info: Option<PublicKeyX509Der<'static>>) -> io::Result<ClientConfig> {
    let provider = default_provider();
    let verifier =
        PinnedKeyVerifier { public_key_info, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Certificate verifier that accepts only the server key of the site.
#[derive(Debug)]
struct PinnedKeyVerifier {
    /// Pinned key as SubjectPublicKeyInfo; `None` accepts every key.
    public_key_info: Option<PublicKeyX509Der<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedKeyVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        match &self.public_key_info {
            Some(pinned) if *pinned.as_ref() != *presented => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// RSA key as SubjectPublicKeyInfo (RFC 5280); `None` for other keys.
fn rsa_public_key_info(key: &[u8]) -> io::Result<Option<PublicKeyX509Der<'static>>> {
    let Ok(key) = PublicKey::from_bytes(key) else { return Ok(None) };
    let KeyComponents::Rsa { modulus, exponent } = key.components() else { return Ok(None) };
    let info = PublicKeyComponents { n: modulus, e: exponent }.as_der();
    info.map(Some)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid RSA key in the site record"))
}

#[cfg(test)]
mod tests {
    use tendot_testing::handle_keys::public_key;

    use super::*;

    #[test]
    fn rsa_keys_are_encoded() {
        let key = public_key("pubkey.bin");
        let KeyComponents::Rsa { modulus, exponent } = key.components() else { panic!("not an RSA key") };
        assert_eq!((modulus.len(), exponent), (256, &[1, 0, 1][..]));
        let expected = [
            // SEQUENCE, `rsaEncryption`, BIT STRING, SEQUENCE, INTEGER of 257 bytes
            &b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00"[..],
            b"\x03\x82\x01\x0f\x00\x30\x82\x01\x0a\x02\x82\x01\x01\x00",
            modulus,
            b"\x02\x03",
            exponent,
        ];
        let info = rsa_public_key_info(&key.to_bytes()).unwrap().unwrap();
        assert_eq!(info.as_ref(), expected.concat());
    }

    #[test]
    fn other_keys_are_not_pinned() {
        assert!(rsa_public_key_info(b"").unwrap().is_none());
        assert!(rsa_public_key_info(b"invalid").unwrap().is_none());
    }
}
