//! Creation of record signatures and certificates.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde::Serialize;

use crate::crypto::{CryptoError, CryptoProvider, HashAlgorithm, SigningKey};
use crate::handle::Handle;
use crate::record::{CertificatePermission, HandleValue, PublicKey, ValueReference};

/// Seconds by which the clock of a verifier may be behind that of the signer.
const CLOCK_TOLERANCE: u64 = 600;

/// Issuer, validity period and chain of a statement to sign.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerClaims<'a> {
    /// Reference to the value with the signer's key.
    pub issuer: ValueReference<'a>,
    /// Time of issue as Unix time in seconds. The validity starts ten minutes earlier, for verifiers whose clock is behind.
    pub issued_at: u64,
    /// Expiration as Unix time in seconds, inclusive.
    pub expires_at: u64,
    /// Certificates of the signer, the next one first; empty if the signer's record has it.
    pub chain: Vec<ValueReference<'a>>,
}

/// Creates the data of an `HS_SIGNATURE` value over the values of a record, as they will be stored: later changes are
/// not covered.
pub fn sign_record(
    handle: Handle<'_>,
    values: &[HandleValue<'_>],
    statement: &IssuerClaims<'_>,
    key: &dyn SigningKey,
    crypto: &dyn CryptoProvider,
) -> Result<Vec<u8>, CryptoError> {
    #[derive(Serialize)]
    struct DigestsClaim {
        alg: &'static str,
        digests: Vec<DigestClaim>,
    }
    #[derive(Serialize)]
    struct DigestClaim {
        index: u32,
        digest: String,
    }
    let digest = |value: &HandleValue<'_>| {
        let digest = value.digest(crypto, HashAlgorithm::Sha256)?;
        Ok(DigestClaim { index: value.index, digest: BASE64.encode(&digest) })
    };
    let digests = values.iter().map(digest).collect::<Result<_, _>>()?;
    statement.sign(
        &handle.to_string(),
        [("digests", to_json(&DigestsClaim { alg: "SHA-256", digests })?)],
        key,
    )
}

/// Creates the data of an `HS_CERT` value: the subject's key may sign for some handles.
pub fn sign_certificate(
    subject: &ValueReference<'_>,
    public_key: &PublicKey<'_>,
    permissions: &[CertificatePermission],
    statement: &IssuerClaims<'_>,
    key: &dyn SigningKey,
) -> Result<Vec<u8>, CryptoError> {
    #[derive(Serialize)]
    struct PermissionClaim<'a> {
        handle: &'a str,
        perm: &'a str,
    }
    let permissions: Vec<_> = permissions
        .iter()
        .map(|permission| PermissionClaim { handle: &permission.handle, perm: &permission.scope.0 })
        .collect();
    let jwk = public_key.jwk().ok_or(CryptoError::Key)?;
    statement.sign(
        &subject.to_string(),
        [("publicKey", to_json(&jwk)?), ("perms", to_json(&permissions)?)],
        key,
    )
}

impl IssuerClaims<'_> {
    fn sign<const N: usize>(
        &self,
        subject: &str,
        claims: [(&str, serde_json::Value); N],
        key: &dyn SigningKey,
    ) -> Result<Vec<u8>, CryptoError> {
        let mut all = serde_json::Map::new();
        let mut put = |name: &str, claim| all.insert(name.into(), claim);
        for (name, claim) in claims {
            put(name, claim);
        }
        put("iss", self.issuer.to_string().into());
        put("sub", subject.into());
        put("iat", self.issued_at.into());
        put("nbf", self.issued_at.saturating_sub(CLOCK_TOLERANCE).into());
        put("exp", self.expires_at.into());
        if !self.chain.is_empty() {
            put("chain", self.chain.iter().map(|link| link.to_string()).collect::<Vec<_>>().into());
        }
        let payload = serde_json::Value::from(all).to_string();
        let mut jws = BASE64URL_NOPAD.encode(br#"{"alg":"RS256"}"#);
        jws.push('.');
        jws += &BASE64URL_NOPAD.encode(payload.as_bytes());
        let signature = key.sign(HashAlgorithm::Sha256, jws.as_bytes())?;
        jws.push('.');
        jws += &BASE64URL_NOPAD.encode(&signature);
        Ok(jws.into_bytes())
    }
}

/// Cannot fail: all map keys are strings.
fn to_json(claim: &impl Serialize) -> Result<serde_json::Value, CryptoError> {
    serde_json::to_value(claim).map_err(|_| CryptoError::Unsupported)
}
