use alloc::string::String;
use alloc::vec::Vec;

use super::HandleValue;
use crate::crypto::{CryptoError, CryptoProvider, Digest, HashAlgorithm};
use crate::error::DecodeError;
use crate::trust::{Claims, Jws};
use crate::wire::{ListItem as _, WireWriter};

/// Data of an `HS_SIGNATURE` value: signed digests of the record's values. Decoding does not verify.
///
/// Reading it verifies nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordSignature<'a> {
    /// The signed form.
    pub jws: Jws<'a>,
    /// Who says it, and when.
    pub claims: Claims,
    /// The hash function by its name, as `SHA-256`.
    pub algorithm: String,
    /// The values that are signed, and the digest of each.
    pub digests: Vec<ValueDigest>,
}

/// Index and digest of a signed value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValueDigest {
    /// The value's index.
    pub index: u32,
    /// Its digest.
    pub digest: Vec<u8>,
}

impl<'a> RecordSignature<'a> {
    /// Reads the data of a value.
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

    /// The hash function, if it is one that the Handle System knows.
    pub fn hash_algorithm(&self) -> Option<HashAlgorithm> {
        match &*self.algorithm {
            "SHA-1" => Some(HashAlgorithm::Sha1),
            "SHA-256" => Some(HashAlgorithm::Sha256),
            "SHA-384" => Some(HashAlgorithm::Sha384),
            "SHA-512" => Some(HashAlgorithm::Sha512),
            _ => None,
        }
    }
}

impl HandleValue<'_> {
    /// The digest by which signatures know the value: of its bytes without index and timestamp.
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
        let [one] = &signature.digests[..] else { panic!("{signature:?}") };
        assert_eq!((one.index, one.digest.len()), (1, 32));
    }
}
