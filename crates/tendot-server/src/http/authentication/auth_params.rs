//! Parameters of the `Handle` authentication scheme: from `Authorization`, a JSON body or a query.

use std::num::NonZeroU32;

use data_encoding::{BASE64, BASE64_NOPAD};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tendot_proto::ValueReference;
use tendot_proto::auth::SecretKeyMac;
use utoipa::ToSchema;

use crate::http::authentication::{AuthenticationError, HttpSessionId, KeyProof};
use crate::http::request::percent;
use crate::http::request::query::QueryParams;

/// Parameters of the `Handle` authentication scheme.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthParams(Vec<(String, String)>);

/// The same parameters as a JSON body.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuthParams)]
pub(crate) struct AuthParamsJson {
    /// Session id; absent when creating a session.
    session_id: Option<String>,
    /// Identity, `INDEX:HANDLE`.
    id: Option<String>,
    /// Key type: `HS_PUBKEY` or `HS_SECKEY`.
    #[serde(rename = "type")]
    key_type: Option<String>,
    /// Client nonce, Base64.
    cnonce: Option<String>,
    /// `SHA256` for a public key, `HMAC-SHA256` or `PBKDF2-HMAC-SHA1` for a secret one.
    alg: Option<String>,
    /// Signature or MAC over both nonces, Base64.
    signature: Option<String>,
    /// Salt of PBKDF2, Base64.
    salt: Option<String>,
    /// Iterations of PBKDF2.
    #[serde(default, deserialize_with = "deserialize_u31")]
    #[schema(value_type = Option<u32>)]
    iterations: Option<u32>,
    /// Key length of PBKDF2, in bits.
    #[serde(default, deserialize_with = "deserialize_u31")]
    #[schema(value_type = Option<u32>)]
    length: Option<u32>,
    /// `true`: authenticate with the client certificate of the connection.
    client_cert: Option<bool>,
}

/// Deserializes a 31-bit integer, also written as `5.0`.
fn deserialize_u31<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    if number.fract() != 0.0 || !(0.0..=f64::from(i32::MAX)).contains(&number) {
        return Err(D::Error::custom("expected an integer below 2^31"));
    }
    Ok(Some(number as u32))
}

/// Answer to a nonce challenge: claimed key, client nonce and proof.
#[derive(Debug)]
pub(crate) struct ChallengeAnswer {
    pub(crate) claim: ValueReference<'static>,
    pub(crate) cnonce: Vec<u8>,
    pub(crate) proof: KeyProof,
}

impl AuthParams {
    /// Maximum number of parameters.
    const MAX_AUTH_PARAMS: usize = 32;

    /// Parses `name="value", name=value` (RFC 9110, section 11.2); the identity is percent-encoded in addition.
    pub(crate) fn from_header(text: &str) -> Result<Self, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let mut params = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or(malformed)?;
            let (value, after) = match after.trim_start().strip_prefix('"') {
                Some(quoted) => parse_quoted_string(quoted).ok_or(malformed)?,
                None => after
                    .split_once(',')
                    .map_or((after.trim().to_owned(), ""), |(value, after)| (value.trim().to_owned(), after)),
            };
            let name = name.trim();
            let value = match name {
                "id" => percent::decode_text(&value, "id")
                    .map_err(|error| AuthenticationError::from(&error))?
                    .into_owned(),
                _ => value,
            };
            params.push(name, value).ok_or(malformed)?;
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        if params.0.is_empty() { Err(malformed) } else { Ok(params) }
    }

    /// Parses a JSON object; an empty body has no parameters.
    pub(crate) fn from_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let json: AuthParamsJson = serde_json::from_slice(body)?;
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let all = [
            ("sessionId", json.session_id),
            ("id", json.id),
            ("type", json.key_type),
            ("cnonce", json.cnonce),
            ("alg", json.alg),
            ("signature", json.signature),
            ("salt", json.salt),
            ("iterations", number(json.iterations)),
            ("length", number(json.length)),
            ("clientCert", json.client_cert.map(|flag| flag.to_string())),
        ];
        let credentials = all.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?)));
        Ok(Self(credentials.collect()))
    }

    /// Reads the parameters of a query.
    pub(crate) fn from_query(parameters: &QueryParams<'_>) -> Self {
        let names = ["cnonce", "alg", "signature", "salt", "iterations", "length"];
        let credentials =
            names.iter().filter_map(|name| Some(((*name).into(), parameters.get(name)?.into())));
        Self(credentials.collect())
    }

    /// Adds parameters of `other` that are missing here.
    pub(crate) fn merge_missing(mut self, other: Self) -> Self {
        let missing: Vec<_> = other.0.into_iter().filter(|(name, _)| self.get(name).is_none()).collect();
        self.0.extend(missing);
        self
    }

    fn push(&mut self, name: &str, value: String) -> Option<()> {
        let is_below_limit = self.0.len() < Self::MAX_AUTH_PARAMS;
        is_below_limit.then(|| self.0.push((name.to_owned(), value)))
    }

    fn get(&self, wanted: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    fn get_base64(&self, wanted: &str) -> Option<Vec<u8>> {
        let text = self.get(wanted)?.trim_end_matches('=');
        // Base64url is accepted, too.
        let text = text.replace('-', "+").replace('_', "/");
        BASE64_NOPAD.decode(text.as_bytes()).ok()
    }

    /// Session id, if present; the inner `None` means that it is malformed.
    pub(crate) fn session_id(&self) -> Option<Option<HttpSessionId>> {
        self.get("sessionId").map(|id| id.parse().ok())
    }

    /// Whether to authenticate by the client certificate.
    pub(crate) fn uses_client_certificate(&self) -> bool {
        self.get("clientCert").is_some_and(|flag| flag.eq_ignore_ascii_case("true"))
    }

    /// Whether an identity is claimed.
    pub(crate) fn has_identity_claim(&self) -> bool {
        ["id", "type", "alg", "signature"].iter().any(|name| self.get(name).is_some())
    }

    /// Client nonce.
    pub(crate) fn cnonce(&self) -> Option<Vec<u8>> {
        self.get_base64("cnonce")
    }

    /// Whether a numeric parameter is not a number.
    pub(crate) fn has_invalid_number(&self) -> bool {
        ["iterations", "length"]
            .iter()
            .any(|name| self.get(name).is_some_and(|text| text.parse::<NonZeroU32>().is_err()))
    }

    /// Client nonce that the server signs to prove its own identity.
    pub(crate) fn server_challenge(&self) -> Option<Vec<u8>> {
        self.cnonce().filter(|cnonce| !self.has_identity_claim() && cnonce.len() <= 64)
    }

    /// Claimed identity and its proof.
    pub(crate) fn challenge_answer(&self) -> Result<ChallengeAnswer, AuthenticationError> {
        let incomplete = AuthenticationError::Incomplete;
        let (claim, kind) = (self.get("id").ok_or(incomplete)?, self.get("type").ok_or(incomplete)?);
        let proof = self.proof(kind)?;
        let cnonce = self.cnonce().ok_or(incomplete)?;
        Ok(ChallengeAnswer { claim: ValueReference::parse(claim).into_owned(), cnonce, proof })
    }

    /// Proof for a key of this type.
    pub(crate) fn proof(&self, kind: &str) -> Result<KeyProof, AuthenticationError> {
        let incomplete = AuthenticationError::Incomplete;
        let signature = self.get_base64("signature").ok_or(incomplete)?;
        let algorithm = self.get("alg").ok_or(incomplete)?;
        match kind {
            "HS_PUBKEY" => Ok(KeyProof::Signature { hash: algorithm.to_ascii_uppercase(), signature }),
            "HS_SECKEY" => {
                let algorithm = SecretKeyMac::from_name(algorithm).ok_or(AuthenticationError::Malformed)?;
                if algorithm != SecretKeyMac::Pbkdf2 {
                    return Ok(KeyProof::Mac { algorithm, mac: signature });
                }
                let number = |name| self.get(name).and_then(|number| number.parse().ok()).ok_or(incomplete);
                Ok(KeyProof::Pbkdf2 {
                    salt: self.get_base64("salt").ok_or(incomplete)?,
                    iterations: number("iterations")?,
                    key_bits: number("length")?,
                    mac: signature,
                })
            }
            _ => Err(AuthenticationError::Malformed),
        }
    }
}

/// Splits at the closing quotation mark: the unescaped string, and the rest.
fn parse_quoted_string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[offset + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}

/// Encodes bytes as Base64.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_headers() {
        check("a=\"b\", C=d", Some("a=b C=d"));
        check("a=b,c=d", Some("a=b c=d"));
        check("a=\"b,\\\"c\" ,, d = e", Some("a=b,\"c d=e"));
        check("a=\"\"", Some("a="));
        check("id=\"300%3A0.NA%2F10\", x=\"%3A\"", Some("id=300:0.NA/10 x=%3A"));
        check("", None);
        check("garbage", None);
        check("a=\"b", None);
        check("a=\"b\\", None);
        check("id=%", None);
        check(&"a=b,".repeat(33), None);
        check(&"a=b,".repeat(32), Some("a=b ".repeat(32).trim_end()));
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let params = AuthParams::from_header(text).ok();
        let shown = params.map(|AuthParams(all)| {
            all.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn json_bodies() {
        let read = |text: &str| AuthParams::from_json(text.as_bytes());
        let params = read(r#"{"type":"HS_SECKEY","iterations":1e3,"clientCert":true,"x":null}"#).unwrap();
        assert_eq!(params.get("iterations"), Some("1000"));
        assert!(params.uses_client_certificate() && params.has_identity_claim() && params.get("x").is_none());
        assert!(read(" ").is_ok_and(|params| params.0.is_empty()));
        assert!(read(r#"{"x":[]}"#).is_ok());
        assert!(
            ["[1]", "{", "1", r#"{"id":1}"#, r#"{"length":-1}"#, r#"{"length":0.5}"#]
                .iter()
                .all(|text| read(text).is_err())
        );
    }

    #[test]
    fn incomplete_params() {
        let complete = "id=300:0.NA/10, type=HS_PUBKEY, cnonce=AAEC, alg=SHA256, signature=AAEC";
        assert!(AuthParams::from_header(complete).unwrap().challenge_answer().is_ok());
        for name in ["id", "type", "cnonce", "alg", "signature"] {
            let rest: Vec<_> = complete.split(", ").filter(|field| !field.starts_with(name)).collect();
            let params = AuthParams::from_header(&rest.join(",")).unwrap();
            assert_eq!(params.challenge_answer().unwrap_err(), AuthenticationError::Incomplete, "{name}");
        }
        let challenges_server = |text| AuthParams::from_header(text).unwrap().server_challenge().is_some();
        assert!(
            challenges_server("cnonce=AAEC")
                && !challenges_server(complete)
                && !challenges_server("sessionId=x")
        );
    }
}
