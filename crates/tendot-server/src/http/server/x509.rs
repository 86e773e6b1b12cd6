//! Expiry, subject and RSA key of X.509 certificates (RFC 5280, section 4.1).

use std::ops::RangeInclusive;

use tendot_proto::record::{KeyComponents, PublicKey};
use x509_cert::Certificate;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier, UintRef};
use x509_cert::der::{Decode as _, Result};
use x509_cert::name::Name;

/// Public key algorithm `rsaEncryption` (RFC 8017, appendix C).
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Name attributes `UID` and `CN` (RFC 4519, sections 2.39 and 2.3).
const USER_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.1");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Expiry of a certificate, in Unix seconds.
pub(crate) fn not_after(certificate: &[u8]) -> Option<u64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs())
}

/// Subject name, validity and RSA public key of a certificate.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CertificateSubject {
    /// User id, or else common name: `300:0.NA/10.1000`.
    pub(crate) name: String,
    /// First and last second of its validity, in Unix time.
    validity: RangeInclusive<u64>,
    /// Modulus and exponent, without leading zeros.
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

impl CertificateSubject {
    pub(crate) fn parse(certificate: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
        let subject = &certificate.subject;
        let name = name_attribute(subject, USER_ID).or_else(|| name_attribute(subject, COMMON_NAME))?;
        let key = &certificate.subject_public_key_info;
        if key.algorithm.oid != RSA_ENCRYPTION {
            return None;
        }
        let (modulus, exponent) = rsa_components(key.subject_public_key.as_bytes()?).ok()?;
        let validity = certificate.validity;
        let validity = validity.not_before.to_unix_duration().as_secs()
            ..=validity.not_after.to_unix_duration().as_secs();
        Some(Self { name, validity, modulus, exponent })
    }

    /// Whether the certificate is valid at this time, in Unix seconds.
    pub(crate) fn is_valid_at(&self, now: u64) -> bool {
        self.validity.contains(&now)
    }

    /// Whether the data of an `HS_PUBKEY` value is this key.
    pub(crate) fn matches_public_key(&self, data: &[u8]) -> bool {
        PublicKey::from_bytes(data).is_ok_and(|key| match key.components() {
            KeyComponents::Rsa { exponent, modulus } => {
                strip_leading_zeros(modulus) == self.modulus && strip_leading_zeros(exponent) == self.exponent
            }
            _ => false,
        })
    }
}

/// First attribute of this type in a distinguished name.
fn name_attribute(name: &Name, wanted: ObjectIdentifier) -> Option<String> {
    let mut attributes = name.0.iter().flat_map(|part| part.0.iter());
    let found = attributes.find(|attribute| attribute.oid == wanted)?;
    String::from_utf8(found.value.value().to_vec()).ok()
}

/// Modulus and exponent of an `RSAPublicKey` (RFC 8017, appendix A.1.1).
fn rsa_components(key: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    AnyRef::from_der(key)?.sequence(|reader| {
        let (modulus, exponent) = (UintRef::decode(reader)?, UintRef::decode(reader)?);
        Ok((modulus.as_bytes().into(), exponent.as_bytes().into()))
    })
}

/// Integer without leading zeros.
fn strip_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, month, day);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn expiry_times() {
        // UTCTime up to 2049, GeneralizedTime from 2050.
        for ((year, month, day), expected) in [
            ((2024, 2, 29), 1_709_164_800),
            ((2031, 5, 6), 1_935_792_000),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((9999, 12, 31), 253_402_214_400),
        ] {
            assert_eq!(not_after(&certificate(year, month, day)), Some(expected), "{year}-{month}-{day}");
        }
        // Invalid dates.
        let valid = certificate(2031, 5, 6);
        let date = valid.windows(13).position(|text| text == b"310506000000Z").unwrap();
        for invalid in ["311306000000Z", "310532000000Z", "31050600000éZ", "3105060000000"] {
            let mut certificate = valid.clone();
            certificate[date..date + 13].copy_from_slice(&invalid.as_bytes()[..13]);
            assert_eq!(not_after(&certificate), None, "{invalid}");
        }
    }

    #[test]
    fn truncated_certificates() {
        // Rejected, without a panic.
        let certificate = certificate(2031, 5, 6);
        for end in 0..certificate.len() {
            assert_eq!(not_after(&certificate[..end]), None);
            assert_eq!(CertificateSubject::parse(&certificate[..end]), None);
        }
        assert_eq!(not_after(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]), None);
    }
}
