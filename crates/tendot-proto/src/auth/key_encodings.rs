//! RSA keys in the encodings of other programs: PKCS #8, SubjectPublicKeyInfo and JSON Web Key.

use alloc::string::String;
use alloc::vec::Vec;

use data_encoding::BASE64URL_NOPAD;
use zeroize::{Zeroize as _, Zeroizing};

use super::der;
use super::key_file::{PrivateKey, RSA_CRT_INTEGERS};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::{JsonError, JsonNode, KeyComponents, PublicKey};
use crate::wire::WireReader;

/// AlgorithmIdentifier content of RSA keys: `rsaEncryption` and NULL (RFC 8017, A.1).
const RSA_ALGORITHM: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// JWK members of a private RSA key, in the order of RSAPrivateKey (RFC 7518, 6.3).
const JWK_MEMBERS: [&str; RSA_CRT_INTEGERS] = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];

impl PrivateKey {
    /// Decodes an RSA key in PKCS #8 (RFC 5208).
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, DecodeError> {
        const FIELD: &str = "PrivateKeyInfo";
        let mut reader = open_sequence(der, FIELD)?;
        let start = reader;
        if !matches!(der::read_element(&mut reader, der::INTEGER, FIELD)?, [0 | 1]) {
            return Err(start.error("PrivateKeyInfo version", DecodeErrorKind::Invalid));
        }
        expect_rsa(&mut reader, FIELD)?;
        // Attributes may follow.
        Self::from_der(der::read_element(&mut reader, der::OCTET_STRING, FIELD)?)
    }

    /// Encodes an RSA key with primes in PKCS #8 (RFC 5208); `None` for other keys.
    ///
    /// ```
    /// use tendot_proto::auth::PrivateKey;
    ///
    /// assert!(PrivateKey::from_pkcs8_der(b"0").is_err());
    /// ```
    pub fn to_pkcs8_der(&self) -> Option<Zeroizing<Vec<u8>>> {
        let key = self.to_der()?;
        // No buffer may grow here: the old allocation would not be zeroed.
        let mut fields = Zeroizing::new(Vec::with_capacity(key.len() + 64));
        der::write_element(&mut fields, der::INTEGER, &[0]);
        der::write_element(&mut fields, der::SEQUENCE, RSA_ALGORITHM);
        der::write_element(&mut fields, der::OCTET_STRING, &key);
        let mut info = Zeroizing::new(Vec::with_capacity(fields.len() + 8));
        der::write_element(&mut info, der::SEQUENCE, &fields);
        Some(info)
    }

    /// Parses a private RSA key with primes as JSON Web Key (RFC 7518, 6.3.2).
    pub fn from_jwk(json: &serde_json::Value) -> Result<Self, JsonError> {
        let node = JsonNode::new(json);
        let key_type = node.required("kty")?;
        if key_type.string()? != "RSA" {
            return Err(key_type.expected("RSA"));
        }
        let mut integers: [Zeroizing<Vec<u8>>; RSA_CRT_INTEGERS] = Default::default();
        for (integer, name) in integers.iter_mut().zip(JWK_MEMBERS) {
            let unsigned = Zeroizing::new(node.required(name)?.base64()?);
            let zeros = unsigned.iter().take_while(|byte| **byte == 0).count();
            let digits = unsigned.get(zeros..).unwrap_or_default();
            integer.reserve_exact(digits.len() + 1);
            if digits.first().is_none_or(|first| *first >= 0x80) {
                integer.push(0);
            }
            integer.extend_from_slice(digits);
        }
        Ok(Self::from_rsa_integers(integers.each_ref().map(|integer| &***integer)))
    }

    /// JSON Web Key of an RSA key with primes (RFC 7518, 6.3.2); `None` for other keys.
    pub fn to_jwk(&self) -> Option<Zeroizing<String>> {
        let integers = self.rsa_integers()?;
        let length: usize = integers.iter().map(|integer| integer.len() * 4 / 3 + 12).sum();
        let mut json = Zeroizing::new(String::with_capacity(length + 32));
        json.push_str("{\"kty\":\"RSA\"");
        for (name, integer) in JWK_MEMBERS.iter().zip(integers) {
            let zeros = integer.iter().take_while(|byte| **byte == 0).count();
            let mut text = BASE64URL_NOPAD.encode(integer.get(zeros..).unwrap_or_default());
            for part in [",\"", name, "\":\"", &text, "\""] {
                json.push_str(part);
            }
            text.zeroize();
        }
        json.push('}');
        Some(json)
    }
}

impl PublicKey<'_> {
    /// Decodes an RSA key as SubjectPublicKeyInfo (RFC 5280, 4.1).
    pub fn from_spki_der(der: &[u8]) -> Result<PublicKey<'static>, DecodeError> {
        const FIELD: &str = "SubjectPublicKeyInfo";
        let mut reader = open_sequence(der, FIELD)?;
        expect_rsa(&mut reader, FIELD)?;
        let start = reader;
        match der::read_element(&mut reader, der::BIT_STRING, FIELD)?.split_first() {
            Some((0, key)) => Self::from_pkcs1_der(key),
            _ => Err(start.error(FIELD, DecodeErrorKind::Invalid)),
        }
    }

    /// Decodes an RSAPublicKey (RFC 8017, A.1.1).
    pub fn from_pkcs1_der(der: &[u8]) -> Result<PublicKey<'static>, DecodeError> {
        const FIELD: &str = "RSAPublicKey";
        let mut reader = open_sequence(der, FIELD)?;
        let modulus = der::read_element(&mut reader, der::INTEGER, FIELD)?;
        let exponent = der::read_element(&mut reader, der::INTEGER, FIELD)?;
        reader.expect_end(FIELD)?;
        Ok(PublicKey::rsa(modulus, exponent))
    }

    /// Encodes an RSA key as SubjectPublicKeyInfo (RFC 5280, 4.1); `None` for other keys.
    ///
    /// ```
    /// use tendot_proto::record::PublicKey;
    ///
    /// let key = PublicKey::rsa(&[0xc1, 0, 1], &[1, 0, 1]);
    /// assert_eq!(PublicKey::from_spki_der(&key.to_spki_der().unwrap()), Ok(key));
    /// ```
    pub fn to_spki_der(&self) -> Option<Vec<u8>> {
        let KeyComponents::Rsa { exponent, modulus } = self.components() else { return None };
        let mut integers = Vec::new();
        for integer in [modulus, exponent] {
            let sign: &[u8] = if integer.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
            der::write_element(&mut integers, der::INTEGER, &[sign, integer].concat());
        }
        // A bit string starts with the number of unused bits.
        let mut key = alloc::vec![0];
        der::write_element(&mut key, der::SEQUENCE, &integers);
        let mut fields = Vec::new();
        der::write_element(&mut fields, der::SEQUENCE, RSA_ALGORITHM);
        der::write_element(&mut fields, der::BIT_STRING, &key);
        let mut info = Vec::new();
        der::write_element(&mut info, der::SEQUENCE, &fields);
        Some(info)
    }
}

/// Content of a SEQUENCE that is the whole input.
fn open_sequence<'a>(der: &'a [u8], field: &'static str) -> Result<WireReader<'a>, DecodeError> {
    let mut outer = WireReader::new(der);
    let sequence = der::read_element(&mut outer, der::SEQUENCE, field)?;
    outer.expect_end(field)?;
    Ok(WireReader::at_offset(sequence, der.len() - sequence.len()))
}

/// Reads an AlgorithmIdentifier, which must be that of RSA keys.
fn expect_rsa(reader: &mut WireReader<'_>, field: &'static str) -> Result<(), DecodeError> {
    let start = *reader;
    if der::read_element(reader, der::SEQUENCE, field)? == RSA_ALGORITHM {
        return Ok(());
    }
    Err(start.error("key algorithm (only RSA is supported)", DecodeErrorKind::Invalid))
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::budget::Budget;
    use crate::crypto::AwsLcProvider;

    const ADMIN_KEY: &[u8] = include_bytes!("../../../../conformance/vectors/handle-net/admpriv.bin");

    #[test]
    fn encodings_round_trip() {
        let key = PrivateKey::from_file_bytes(ADMIN_KEY, None, &AwsLcProvider, &mut { Budget::PER_REQUEST })
            .unwrap();
        let pkcs8 = key.to_pkcs8_der().unwrap();
        assert_eq!(*PrivateKey::from_pkcs8_der(&pkcs8).unwrap().to_file_bytes(), ADMIN_KEY);
        let jwk: serde_json::Value = serde_json::from_str(&key.to_jwk().unwrap()).unwrap();
        assert_eq!(*PrivateKey::from_jwk(&jwk).unwrap().to_file_bytes(), ADMIN_KEY);
        let public = key.public_key().unwrap();
        assert_eq!(PublicKey::from_jwk(&jwk).unwrap(), public, "the public part of a private JWK");
        assert_eq!(PublicKey::from_spki_der(&public.to_spki_der().unwrap()).unwrap(), public);
        assert_eq!(PublicKey::dsa(&[1], &[2], &[3], &[4]).to_spki_der(), None);
    }

    #[test]
    fn rejects_other_keys() {
        let ec = b"\x30\x13\x02\x01\x00\x30\x0c\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x01\x00\x04\x00";
        let error = PrivateKey::from_pkcs8_der(ec).unwrap_err().to_string();
        assert!(error.starts_with("key algorithm (only RSA is supported)"), "{error}");
        for der in [&[][..], &[0x30, 0x00], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 3, 2, 1, 0]] {
            assert!(PrivateKey::from_pkcs8_der(der).is_err() && PublicKey::from_spki_der(der).is_err());
        }
        let missing = serde_json::json!({"kty": "RSA", "n": "wQAB", "e": "AQAB", "d": "AQ"});
        assert!(PrivateKey::from_jwk(&missing).is_err());
    }
}
