use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde::Serialize;

use crate::crypto::{CryptoError, CryptoProvider, HashAlgorithm, SigningKey};
use crate::handle::Handle;
use crate::record::{CertificatePermission, HandleValue, PublicKey, ValueReference};

/// Issuer, validity period and chain of a statement to sign.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerClaims<'a> {
    /// The value that holds the signer's key.
    pub issuer: ValueReference<'a>,
    /// When it is said, in seconds since 1970; it holds from then on.
    pub issued_at: u64,
    /// The last second at which it holds.
    pub expires: u64,
    /// Where the signer's certificate is, the next one first; empty if it is in the signer's own record.
    pub chain: Vec<ValueReference<'a>>,
}

/// The data of an `HS_SIGNATURE` over values of a record, which must be those that it will have: what changes later is
/// no longer signed.
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

/// The data of an `HS_CERT`: the subject's key may sign for some handles.
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
        put("nbf", self.issued_at.into());
        put("exp", self.expires.into());
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

/// Nothing that is put here fails: no map has keys that are no strings.
fn to_json(claim: &impl Serialize) -> Result<serde_json::Value, CryptoError> {
    serde_json::to_value(claim).map_err(|_| CryptoError::Unsupported)
}
