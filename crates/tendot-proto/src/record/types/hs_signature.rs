//! `HS_SIGNATURE`: signed digests of the values of a record.

use alloc::string::String;
use alloc::vec::Vec;

use crate::crypto::{CryptoError, CryptoProvider, Digest, HashAlgorithm};
use crate::error::DecodeError;
use crate::record::HandleValue;
use crate::trust::{Claims, Jws};
use crate::wire::{ListItem as _, WireWriter};

/// Data of an `HS_SIGNATURE` value: signed digests of the record's values. Decoding does not verify.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordSignature<'a> {
    /// JSON Web Signature.
    pub jws: Jws<'a>,
    /// Issuer, subject and validity.
    pub claims: Claims,
    /// Name of the hash algorithm, for example `SHA-256`.
    pub algorithm: String,
    /// Digests of the signed values.
    pub digests: Vec<ValueDigest>,
}

/// Index and digest of a signed value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValueDigest {
    /// Index of the value.
    pub index: u32,
    /// Digest of the value.
    pub digest: Vec<u8>,
}

impl<'a> RecordSignature<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let jws = Jws::from_bytes(bytes)?;
        let (claims, (algorithm, digests)) = Claims::decode(&jws, "HS_SIGNATURE", |node| {
            let outer = node.required("digests")?;
            let digests = outer.required("digests")?.map_list(|item| {
                Ok(ValueDigest {
                    index: item.required("index")?.integer()?,
                    digest: item.required("digest")?.base64()?,
                })
            })?;
            Ok((outer.required("alg")?.string()?.into(), digests))
        })?;
        Ok(Self { jws, claims, algorithm, digests })
    }

    /// Hash algorithm, if it is a known one.
    pub fn hash_algorithm(&self) -> Option<HashAlgorithm> {
        HashAlgorithm::from_name(self.algorithm.as_bytes()).filter(|hash| *hash != HashAlgorithm::Md5)
    }
}

impl HandleValue<'_> {
    /// Digest of a value for signatures: covers its bytes without index and timestamp.
    pub fn digest(&self, crypto: &dyn CryptoProvider, hash: HashAlgorithm) -> Result<Digest, CryptoError> {
        let mut bytes = Vec::new();
        self.encode(&mut WireWriter::new(&mut bytes));
        crypto.hash(hash, &[bytes.get(8..).unwrap_or_default()])
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use data_encoding::BASE64URL_NOPAD;

    use super::*;

    #[test]
    fn claims() {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let payload = r#"{"iss":"300:0.NA/10","sub":"10.1000/1","iat":"5","digests":{"alg":"SHA-256","digests":
            [{"index":1,"digest":"9qhvEqHnEjgrdC/AJRqxeDC5bVyxwJuILa5fEs+YLOQ="}]}}"#;
        let jws = format!("{}.{}.AQID", part(r#"{"alg":"DS256"}"#), part(payload));
        let signature = RecordSignature::from_bytes(jws.as_bytes()).unwrap();
        assert_eq!(
            (signature.hash_algorithm(), &*signature.claims.subject),
            (Some(HashAlgorithm::Sha256), "10.1000/1")
        );
        assert_eq!(signature.claims.issued_at, Some(5));
        let [digest] = &signature.digests[..] else { panic!("{signature:?}") };
        assert_eq!((digest.index, digest.digest.len()), (1, 32));
    }
}
