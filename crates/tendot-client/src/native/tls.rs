//! TLS to servers that are known by their keys: nobody else has to vouch for them.

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

use super::transport::{CONNECT, connect_tcp};

/// A connection to the server that has this key, as its site has it. If that is no RSA key, as of old servers whose
/// certificates have another than they sign with, the connection is no more certain than one without TLS.
pub(super) async fn connect_tls(
    to: SocketAddr,
    domain: Option<&str>,
    key: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let stream = connect_tcp(to).await?;
    let provider = default_provider();
    let pinned = PinnedKeyVerifier {
        key: rsa_public_key_info(key),
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    let domain = domain.and_then(|domain| ServerName::try_from(domain.to_owned()).ok());
    let name = domain.unwrap_or_else(|| to.ip().into());
    timeout(CONNECT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await?
}

/// Certificate verifier that accepts only the server key of the site.
#[derive(Debug)]
struct PinnedKeyVerifier {
    key: Option<Vec<u8>>,
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
        let found = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        match &self.key {
            Some(key) if **key != *found => Err(CertificateError::ApplicationVerificationFailure.into()),
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

/// A key as certificates have it (RFC 3279, 2.3.1), if it is one of RSA.
fn rsa_public_key_info(key: &[u8]) -> Option<Vec<u8>> {
    /// `rsaEncryption`, with parameters that are none.
    const RSA_ALGORITHM_IDENTIFIER: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let key = PublicKey::from_bytes(key).ok()?;
    let KeyComponents::Rsa { modulus, exponent } = key.components() else { return None };
    let integer = |number: &[u8]| {
        // One that begins with a set bit would be negative.
        let sign: &[u8] = if number.first().is_none_or(|first| first & 0x80 != 0) { &[0] } else { &[] };
        der_element(0x02, &[sign, number].concat())
    };
    let numbers = der_element(0x30, &[integer(modulus), integer(exponent)].concat());
    let bits = der_element(0x03, &[&[0], &numbers[..]].concat());
    Some(der_element(0x30, &[RSA_ALGORITHM_IDENTIFIER, &bits].concat()))
}

/// An element of DER.
fn der_element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = length.iter().position(|byte| *byte != 0).and_then(|at| length.get(at..)).unwrap_or(&[0]);
    let mut element = vec![tag];
    match digits {
        [short] if *short < 0x80 => element.push(*short),
        _ => {
            element.push(0x80 | u8::try_from(digits.len()).unwrap_or(0x7f));
            element.extend(digits);
        }
    }
    element.extend(content);
    element
}
