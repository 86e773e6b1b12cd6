//! TLS configuration that trusts the certificates in a file.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;

/// TLS configuration that trusts the certificates in `pem`; the error is its message.
///
/// They are CA certificates, or the certificate of the server itself. That may be marked as a CA and have its name only as common
/// name, as `openssl req -x509` makes it; curl accepts the same.
pub(crate) fn tls_config_with_roots(pem: &[u8]) -> Result<ClientConfig, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("no certificate in the file".into());
    }
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let webpki = webpki.build().map_err(|error| error.to_string())?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let verifier = TrustedCertificateVerifier { webpki, certificates };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Certificate verifier with CA certificates, which a server may also use as its own.
#[derive(Debug)]
struct TrustedCertificateVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustedCertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.webpki.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verified {
            // The validity period was checked before; a trusted certificate needs no path, only the right name.
            Err(error) if is_excusable(&error) && self.certificates.contains(certificate) => {
                match verify_server_name(&ParsedCertificate::try_from(certificate)?, name) {
                    Err(_) if has_only_common_name(certificate, &name.to_str()) => {}
                    verified => verified?,
                }
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether a server may use a trusted certificate with this fault: it is marked as a CA, or lacks a subject alternative name.
fn is_excusable(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            matches!(other.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        Error::InvalidCertificate(error) => matches!(
            error,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ),
        _ => false,
    }
}

/// Whether a certificate has no subject alternative name, and `name` as its last common name (RFC 6125, 6.4.4).
fn has_only_common_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(certificate) = Certificate::from_der(certificate) else { return false };
    let certificate = certificate.tbs_certificate;
    let mut extensions = certificate.extensions.iter().flatten();
    if extensions.any(|extension| extension.extn_id == SUBJECT_ALT_NAME) {
        return false;
    }
    let mut attributes = certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let common_name = attributes.rfind(|attribute| attribute.oid == COMMON_NAME);
    common_name.is_some_and(|attribute| attribute.value.value().eq_ignore_ascii_case(name.as_bytes()))
}

/// Extension with the names of the server (RFC 5280, 4.2.1.6).
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// Type of the common name in a subject (X.520).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
