//! Request digests computed locally.

use subtle::ConstantTimeEq;

use super::context::AuthContext;
use super::cost;
use super::error::AuthError;
use crate::crypto::{Digest, HashAlgorithm};
use crate::message::DigestAlgorithm;
use crate::message::{ProtocolVersion, RequestDigest};

/// Request digest computed locally.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ComputedDigest {
    algorithm: DigestAlgorithm,
    bytes: Digest,
}

impl ComputedDigest {
    /// Computes the digest of a request for a response of this version: SHA-256 since 2.7; SHA-1 since 2.1 and MD5
    /// before, if the policy allows them.
    pub fn for_request(
        header_and_body: &[u8],
        version: ProtocolVersion,
        context: &mut AuthContext<'_>,
    ) -> Result<Self, AuthError> {
        let algorithm = if version >= ProtocolVersion::SHA256 {
            DigestAlgorithm::Sha256
        } else if version >= ProtocolVersion::DIGEST_ALGORITHMS {
            DigestAlgorithm::Sha1
        } else {
            DigestAlgorithm::Untagged
        };
        Self::compute(algorithm, header_and_body, context)
    }

    fn compute(
        algorithm: DigestAlgorithm,
        header_and_body: &[u8],
        context: &mut AuthContext<'_>,
    ) -> Result<Self, AuthError> {
        let hash = match algorithm {
            DigestAlgorithm::Sha256 => HashAlgorithm::Sha256,
            DigestAlgorithm::Sha1 if context.policy.allow_sha1 => HashAlgorithm::Sha1,
            DigestAlgorithm::Sha1 => return Err(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" }),
            DigestAlgorithm::Md5 | DigestAlgorithm::Untagged if context.policy.allow_md5 => {
                HashAlgorithm::Md5
            }
            DigestAlgorithm::Md5 | DigestAlgorithm::Untagged => {
                return Err(AuthError::AlgorithmNotAllowed { algorithm: "MD5" });
            }
        };
        context.budget.charge(cost::hash(header_and_body.len()))?;
        Ok(Self { algorithm, bytes: context.provider.hash(hash, &[header_and_body])? })
    }

    /// Verifies the digest in a response against the request as it was sent.
    pub fn verify(
        digest: &RequestDigest<'_>,
        header_and_body: &[u8],
        context: &mut AuthContext<'_>,
    ) -> Result<(), AuthError> {
        let computed = Self::compute(digest.algorithm, header_and_body, context)?;
        if bool::from(computed.bytes.ct_eq(digest.bytes)) { Ok(()) } else { Err(AuthError::DigestMismatch) }
    }

    /// Digest as a field of a response.
    pub fn as_request_digest(&self) -> RequestDigest<'_> {
        RequestDigest { algorithm: self.algorithm, bytes: &self.bytes }
    }

    /// Digest without algorithm byte.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
