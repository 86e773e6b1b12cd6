use subtle::ConstantTimeEq;

use super::error::AuthError;
use super::policy::AuthPolicy;
use super::price;
use crate::crypto::{CryptoProvider, Digest, HashAlgorithm};
use crate::message::DigestAlgorithm;
use crate::message::{ProtocolVersion, RequestDigest};
use crate::work::Budget;

/// Request digest computed locally.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ComputedDigest {
    algorithm: DigestAlgorithm,
    bytes: Digest,
}

impl ComputedDigest {
    /// Digests a request for a response of this version: SHA-256 from 2.7 on; SHA-1 from 2.1 on and MD5 before that, if
    /// the policy allows.
    pub fn for_request(
        header_and_body: &[u8],
        version: ProtocolVersion,
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<Self, AuthError> {
        let algorithm = if version >= ProtocolVersion::SHA256 {
            DigestAlgorithm::Sha256
        } else if version >= ProtocolVersion::DIGEST_ALGORITHMS {
            DigestAlgorithm::Sha1
        } else {
            DigestAlgorithm::Untold
        };
        Self::compute(algorithm, header_and_body, policy, crypto, work)
    }

    fn compute(
        algorithm: DigestAlgorithm,
        header_and_body: &[u8],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<Self, AuthError> {
        let hash = match algorithm {
            DigestAlgorithm::Sha256 => HashAlgorithm::Sha256,
            DigestAlgorithm::Sha1 if policy.sha1 => HashAlgorithm::Sha1,
            DigestAlgorithm::Sha1 => return Err(AuthError::NotAllowed { algorithm: "SHA-1" }),
            DigestAlgorithm::Md5 | DigestAlgorithm::Untold if policy.md5 => HashAlgorithm::Md5,
            DigestAlgorithm::Md5 | DigestAlgorithm::Untold => {
                return Err(AuthError::NotAllowed { algorithm: "MD5" });
            }
        };
        work.charge(price::hash(header_and_body.len()))?;
        Ok(Self { algorithm, bytes: crypto.hash(hash, &[header_and_body])? })
    }

    /// Checks that a digest in a response is that of the request as it was sent.
    pub fn verify(
        digest: &RequestDigest<'_>,
        header_and_body: &[u8],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<(), AuthError> {
        let own = Self::compute(digest.algorithm, header_and_body, policy, crypto, work)?;
        if bool::from(own.bytes.ct_eq(digest.bytes)) { Ok(()) } else { Err(AuthError::OtherRequest) }
    }

    /// The digest as it stands in a response.
    pub fn as_request_digest(&self) -> RequestDigest<'_> {
        RequestDigest { algorithm: self.algorithm, bytes: &self.bytes }
    }

    /// The bytes alone.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
