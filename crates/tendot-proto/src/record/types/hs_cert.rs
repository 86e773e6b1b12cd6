//! `HS_CERT`: certificates of keys.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::record::json::jwk;
use crate::record::{PublicKey, ValueReference};
use crate::trust::{Claims, Jws};

/// Data of an `HS_CERT` value: signed statement that a key may sign for certain handles. Decoding does not verify.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HandleCertificate<'a> {
    /// JSON Web Signature.
    pub jws: Jws<'a>,
    /// Issuer, subject and validity.
    pub claims: Claims,
    /// Public key of the subject.
    pub public_key: PublicKey<'static>,
    /// Permissions of the key.
    pub permissions: Vec<CertificatePermission>,
}

/// Certificate permission: handle and scope.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificatePermission {
    /// Handle of the scope; empty where it does not apply.
    pub handle: String,
    /// Scope of the permission.
    pub scope: CertificateScope,
}

/// Scope of a certificate permission. Unknown names are preserved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateScope(pub Cow<'static, str>);

impl CertificateScope {
    /// All handles.
    pub const EVERYTHING: Self = Self(Cow::Borrowed("everything"));
    /// The handle itself, and handles under it if it is a prefix.
    pub const THIS_HANDLE: Self = Self(Cow::Borrowed("thisHandle"));
    /// Derived prefixes, and handles under them.
    pub const DERIVED_PREFIXES: Self = Self(Cow::Borrowed("derivedPrefixes"));
    /// Handles under the prefix.
    pub const HANDLES_UNDER_THIS_PREFIX: Self = Self(Cow::Borrowed("handlesUnderThisPrefix"));
}

impl<'a> HandleCertificate<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let jws = Jws::from_bytes(bytes)?;
        let (claims, (public_key, permissions)) = Claims::decode(&jws, "HS_CERT", |node| {
            let public_key = jwk::parse_jwk(&node.required("publicKey")?)?;
            let permissions = node.get("perms").map_or(Ok(Vec::new()), |list| {
                list.map_list(|item| {
                    Ok(CertificatePermission {
                        handle: item.get("handle").map_or(Ok(""), |handle| handle.string())?.into(),
                        scope: CertificateScope(Cow::Owned(item.required("perm")?.string()?.into())),
                    })
                })
            })?;
            Ok((public_key, permissions))
        })?;
        Ok(Self { jws, claims, public_key, permissions })
    }

    /// Reference to the value with the subject's key.
    pub fn subject(&self) -> ValueReference<'_> {
        ValueReference::parse(&self.claims.subject)
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use data_encoding::BASE64URL_NOPAD;

    use super::*;

    #[test]
    fn claims() {
        let decode = |payload: &str| {
            let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
            let jws = format!("{}.{}.AQID", part(r#"{"alg":"RS256"}"#), part(payload)).into_bytes();
            HandleCertificate::from_bytes(jws.leak())
        };
        let certificate = decode(
            r#"{"iss":"300:0.0/0.0","sub":"301:0.NA/10","exp":20,"nbf":10,"iat":11,"chain":["300:0.0/0.0","0.NA/1"],
            "publicKey":{"kty":"RSA","n":"wQAB","e":"AQAB"},
            "perms":[{"perm":"everything"},{"handle":"0.NA/10","perm":"derivedPrefixes"},{"handle":"","perm":"new"}]}"#,
        )
        .unwrap();
        assert_eq!(certificate.claims.issuer, ValueReference::parse("300:0.0/0.0"));
        assert_eq!(certificate.subject(), ValueReference::parse("301:0.NA/10"));
        assert_eq!(
            certificate.claims.chain,
            [ValueReference::parse("300:0.0/0.0"), ValueReference::parse("0:0.NA/1")]
        );
        assert_eq!(certificate.public_key, PublicKey::rsa(&[0xc1, 0, 1], &[1, 0, 1]));
        let [first, second, third] = &certificate.permissions[..] else { panic!("{certificate:?}") };
        assert_eq!(first.scope, CertificateScope::EVERYTHING);
        assert_eq!((&*second.handle, &second.scope), ("0.NA/10", &CertificateScope::DERIVED_PREFIXES));
        assert_eq!(third.scope.0, "new");
        let is_valid = |now| certificate.claims.is_valid_at(now);
        assert_eq!((is_valid(9), is_valid(10), is_valid(20), is_valid(21)), (false, true, true, false));
        assert!(decode(r#"{"iss":"300:0.0/0.0","sub":"301:0.NA/10"}"#).is_err(), "no key");
        assert!(decode("{}").is_err());
        assert!(decode("").is_err());
    }
}
