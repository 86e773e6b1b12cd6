//! JSON Web Signatures (RFC 7515).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use crate::crypto::HashAlgorithm;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;

/// JSON Web Signature (RFC 7515), compact or JSON. Decoding does not verify.
///
/// ```
/// use tendot_proto::trust::Jws;
///
/// // {"alg":"RS256"} . {"iss":"1:0.NA/10"} . three bytes
/// let jws = Jws::from_bytes(b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOjAuTkEvMTAifQ.AQID")?;
/// assert_eq!(jws.payload(), br#"{"iss":"1:0.NA/10"}"#);
/// let [signature] = jws.signatures() else { panic!() };
/// assert_eq!((signature.algorithm(), signature.bytes()), ("RS256", &[1, 2, 3][..]));
/// assert_eq!(jws.signing_input(signature), b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOjAuTkEvMTAifQ");
///
/// let error = Jws::from_bytes(b"eyJhbGciOiJSUzI1NiJ9.e30").unwrap_err();
/// assert_eq!(error.to_string(), "JWS signature at byte 24: invalid value");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Jws<'a> {
    source: &'a [u8],
    /// Payload in base64, which the signature covers.
    encoded: Cow<'a, str>,
    payload: Vec<u8>,
    signatures: Vec<JwsSignature<'a>>,
}

/// Signature of a [`Jws`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JwsSignature<'a> {
    /// Protected header in base64, which the signature covers.
    protected: Cow<'a, str>,
    algorithm: String,
    bytes: Vec<u8>,
}

/// Signature algorithm: RSA (`RS256` …) or DSA (`DS256` …, Handle System only).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JwsAlgorithm {
    /// `RS256` etc.: RSA with PKCS #1 v1.5.
    Rsa(HashAlgorithm),
    /// `DS256` etc.: DSA, only in the Handle System.
    Dsa(HashAlgorithm),
}

impl<'a> Jws<'a> {
    /// Maximum number of signatures.
    pub const MAX_SIGNATURES: usize = 16;

    /// Decodes the compact or the JSON serialization.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() > limits::MAX_MESSAGE_LEN {
            let kind = DecodeErrorKind::TooLong { len: bytes.len(), max: limits::MAX_MESSAGE_LEN };
            return Err(DecodeError::new("JWS", 0, kind));
        }
        let text = core::str::from_utf8(bytes)
            .map_err(|error| DecodeError::new("JWS", error.valid_up_to(), DecodeErrorKind::InvalidUtf8))?;
        match text.trim_ascii_start().starts_with('{') {
            true => Self::from_json(text),
            false => Self::from_compact(text),
        }
    }

    fn from_compact(text: &'a str) -> Result<Self, DecodeError> {
        let missing = |field| invalid(field, text.len());
        let (protected, rest) = text.split_once('.').ok_or(missing("JWS payload"))?;
        let (encoded, last) = rest.split_once('.').ok_or(missing("JWS signature"))?;
        let payload = decode_base64url(encoded, "JWS payload", protected.len() + 1)?;
        let bytes = decode_base64url(last, "JWS signature", text.len() - last.len())?;
        let signatures = alloc::vec![JwsSignature::new(protected.into(), bytes)?];
        Ok(Self { source: text.as_bytes(), encoded: encoded.into(), payload, signatures })
    }

    fn from_json(text: &'a str) -> Result<Self, DecodeError> {
        let json: JwsJson<'a> = serde_json::from_str(text).map_err(|_| invalid("JWS", 0))?;
        let payload = decode_base64url(&json.payload, "JWS payload", 0)?;
        let flattened = json
            .protected
            .zip(json.signature)
            .map(|(protected, signature)| JwsJsonSignature { protected, signature });
        let all: Vec<_> = flattened.into_iter().chain(json.signatures).collect();
        if all.is_empty() {
            return Err(invalid("JWS signature", 0));
        }
        if all.len() > Self::MAX_SIGNATURES {
            let kind = DecodeErrorKind::TooManyItems { count: all.len(), max: Self::MAX_SIGNATURES };
            return Err(DecodeError::new("JWS signatures", 0, kind));
        }
        let signatures = (all.into_iter())
            .map(|entry| {
                JwsSignature::new(entry.protected, decode_base64url(&entry.signature, "JWS signature", 0)?)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { source: text.as_bytes(), encoded: json.payload, payload, signatures })
    }

    /// Undecoded bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.source
    }

    /// Signed payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Signatures, at least one.
    pub fn signatures(&self) -> &[JwsSignature<'a>] {
        &self.signatures
    }

    /// Signing input of a signature.
    pub fn signing_input(&self, signature: &JwsSignature<'_>) -> Vec<u8> {
        [signature.protected.as_bytes(), b".", self.encoded.as_bytes()].concat()
    }
}

impl<'a> JwsSignature<'a> {
    fn new(protected: Cow<'a, str>, bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let header = decode_base64url(&protected, "JWS header", 0)?;
        let header: JwsHeader = serde_json::from_slice(&header).map_err(|_| invalid("JWS header", 0))?;
        // Unknown critical header parameters must be rejected (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Err(invalid("JWS critical header", 0));
        }
        Ok(Self { protected, algorithm: header.alg, bytes })
    }

    /// Name of the algorithm, for example `RS256`.
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// Algorithm, if it is supported.
    pub fn supported_algorithm(&self) -> Option<JwsAlgorithm> {
        let (family, size) = self.algorithm.split_at_checked(2)?;
        let hash = match size {
            "160" => HashAlgorithm::Sha1,
            "256" => HashAlgorithm::Sha256,
            "384" => HashAlgorithm::Sha384,
            "512" => HashAlgorithm::Sha512,
            _ => return None,
        };
        match family {
            "RS" => Some(JwsAlgorithm::Rsa(hash)),
            "DS" => Some(JwsAlgorithm::Dsa(hash)),
            _ => None,
        }
    }

    /// Bytes of the signature.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// JSON serialization, general or flattened (RFC 7515, 7.2).
#[derive(Deserialize)]
struct JwsJson<'a> {
    #[serde(borrow)]
    payload: Cow<'a, str>,
    #[serde(borrow)]
    protected: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signatures: Vec<JwsJsonSignature<'a>>,
}

/// Entry of `signatures`.
#[derive(Deserialize)]
struct JwsJsonSignature<'a> {
    #[serde(borrow)]
    protected: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
}

/// Protected header.
#[derive(Deserialize)]
struct JwsHeader {
    alg: String,
    crit: Option<serde::de::IgnoredAny>,
}

fn decode_base64url(part: &str, field: &'static str, offset: usize) -> Result<Vec<u8>, DecodeError> {
    BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|error| invalid(field, offset + error.position))
}

const fn invalid(field: &'static str, offset: usize) -> DecodeError {
    DecodeError::new(field, offset, DecodeErrorKind::Invalid)
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn serializations() {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let (rsa, dsa) = (part(r#"{"alg":"RS512"}"#), part(r#"{"alg":"DS160","typ":"JWT"}"#));
        let payload = part("{}");
        check(&format!("{rsa}.{payload}.AQID"), Ok(1));
        check(&format!(r#" {{"payload":"{payload}","protected":"{rsa}","signature":"AQID"}}"#), Ok(1));
        check(
            &format!(
                r#"{{"payload":"{payload}","signatures":[{{"protected":"{rsa}","signature":"AQID"}},{{"protected":"{dsa}","header":{{}},"signature":""}}]}}"#
            ),
            Ok(2),
        );
        check(
            &format!(r#"{{"payload":"{payload}","signatures":[]}}"#),
            Err("JWS signature at byte 0: invalid value"),
        );
        check(&format!("{rsa}.{payload}.AQID."), Err("JWS signature at byte 29: invalid value"));
        check(&format!("{rsa}.{payload}.AQ=="), Err("JWS signature at byte 27: invalid value"));
        check("", Err("JWS payload at byte 0: invalid value"));
        check("{", Err("JWS at byte 0: invalid value"));
        let critical = part(r#"{"alg":"RS256","crit":["exp"]}"#);
        check(&format!("{critical}.{payload}.AQID"), Err("JWS critical header at byte 0: invalid value"));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<usize, &str>) {
        let decoded = Jws::from_bytes(text.as_bytes());
        if let Ok(jws) = &decoded {
            assert_eq!(jws.as_bytes(), text.as_bytes());
            assert_eq!(
                jws.signatures()[0].supported_algorithm(),
                Some(JwsAlgorithm::Rsa(HashAlgorithm::Sha512))
            );
        }
        let signatures = decoded.map(|jws| jws.signatures().len()).map_err(|error| error.to_string());
        assert_eq!(signatures, expected.map_err(String::from), "{text}");
    }
}
