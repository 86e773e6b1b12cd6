//! Public keys as JSON Web Keys (RFC 7517).

use data_encoding::BASE64URL_NOPAD;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::serialize::DisplayText;
use super::{JsonError, JsonNode};
use crate::record::{KeyComponents, PublicKey};

/// Public key as JSON Web Key (RFC 7517); DSA in Handle.Net's form.
///
/// ```
/// use tendot_proto::record::PublicKey;
///
/// let key = PublicKey::rsa(&[0xc1, 0, 1], &[1, 0, 1]);
/// let json = serde_json::to_value(key.jwk()).unwrap();
/// assert_eq!(json.to_string(), r#"{"e":"AQAB","kty":"RSA","n":"wQAB"}"#);
/// assert_eq!(PublicKey::from_jwk(&json), Ok(key));
///
/// let error = PublicKey::from_jwk(&serde_json::json!({"kty": "EC"})).unwrap_err();
/// assert_eq!(error.to_string(), "kty: expected RSA or DSA, found \"EC\"");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Jwk<'k>(KeyComponents<'k>);

impl PublicKey<'_> {
    /// JSON Web Key, unless it is a Diffie-Hellman key or JSON could not reproduce it byte for byte.
    pub fn jwk(&self) -> Option<Jwk<'_>> {
        let components = self.components();
        (self.is_canonical() && !matches!(components, KeyComponents::DiffieHellman { .. }))
            .then_some(Jwk(components))
    }

    /// Parses a JSON Web Key. Accepts leading zeros of integers and both base64 alphabets.
    pub fn from_jwk(json: &serde_json::Value) -> Result<PublicKey<'static>, JsonError> {
        parse_jwk(&JsonNode::new(json))
    }
}

pub(in crate::record) fn parse_jwk(node: &JsonNode<'_, '_>) -> Result<PublicKey<'static>, JsonError> {
    let key_type = node.required("kty")?;
    let integer = |name: &str| node.required(name)?.base64();
    match key_type.string()? {
        "RSA" => Ok(PublicKey::rsa(&integer("n")?, &integer("e")?)),
        "DSA" => Ok(PublicKey::dsa(&integer("q")?, &integer("p")?, &integer("g")?, &integer("y")?)),
        _ => Err(key_type.expected("RSA or DSA")),
    }
}

impl Serialize for Jwk<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, integers): (_, &[(_, &[u8])]) = match self.0 {
            KeyComponents::Rsa { modulus, exponent } => ("RSA", &[("n", modulus), ("e", exponent)]),
            KeyComponents::Dsa { q, p, g, y } => ("DSA", &[("y", y), ("p", p), ("q", q), ("g", g)]),
            KeyComponents::DiffieHellman { .. } => ("DH", &[]),
        };
        let mut out = serializer.serialize_struct("Jwk", 1 + integers.len())?;
        out.serialize_field("kty", name)?;
        for (name, integer) in integers {
            out.serialize_field(name, &DisplayText(BASE64URL_NOPAD.encode_display(integer)))?;
        }
        out.end()
    }
}
