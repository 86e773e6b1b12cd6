//! TLS with a pinned server key, without a CA.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

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
    let stream = connect_tcp(to).await?;
    let provider = default_provider();
    let verifier = PinnedKeyVerifier {
        public_key_info: rsa_public_key_info(key),
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let domain = domain.and_then(|domain| ServerName::try_from(domain.to_owned()).ok());
    let name = domain.unwrap_or_else(|| to.ip().into());
    timeout(CONNECT_TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await?
}

/// Certificate verifier that accepts only the server key of the site.
#[derive(Debug)]
struct PinnedKeyVerifier {
    /// Pinned key as SubjectPublicKeyInfo; `None` accepts every key.
    public_key_info: Option<Vec<u8>>,
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
            Some(pinned) if **pinned != *presented => {
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

/// RSA key as SubjectPublicKeyInfo (RFC 3279, section 2.3.1); `None` for other keys.
fn rsa_public_key_info(key: &[u8]) -> Option<Vec<u8>> {
    /// `rsaEncryption` with NULL parameters.
    const RSA_ALGORITHM_IDENTIFIER: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let key = PublicKey::from_bytes(key).ok()?;
    let KeyComponents::Rsa { modulus, exponent } = key.components() else { return None };
    let integer = |number: &[u8]| {
        // A leading zero keeps the integer positive.
        let sign: &[u8] = if number.first().is_none_or(|first| first & 0x80 != 0) { &[0] } else { &[] };
        der_element(0x02, &[sign, number].concat())
    };
    let numbers = der_element(0x30, &[integer(modulus), integer(exponent)].concat());
    let bits = der_element(0x03, &[&[0], &numbers[..]].concat());
    Some(der_element(0x30, &[RSA_ALGORITHM_IDENTIFIER, &bits].concat()))
}

/// DER element: tag, length, content.
fn der_element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length_bytes =
        length.iter().position(|byte| *byte != 0).and_then(|first| length.get(first..)).unwrap_or(&[0]);
    let mut element = vec![tag];
    match length_bytes {
        [short] if *short < 0x80 => element.push(*short),
        _ => {
            element.push(0x80 | u8::try_from(length_bytes.len()).unwrap_or(0x7f));
            element.extend(length_bytes);
        }
    }
    element.extend(content);
    element
}
