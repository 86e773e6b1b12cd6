use subtle::ConstantTimeEq;

use super::error::AuthError;
use super::policy::Policy;
use super::price;
use crate::crypto::{Crypto, Digest, Hash};
use crate::message::DigestAlgorithm;
use crate::message::{RequestDigest, Version};
use crate::work::Work;

/// The digest of a request's header and body, made here.
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
        version: Version,
        policy: &Policy,
        crypto: &dyn Crypto,
        work: &mut Work,
    ) -> Result<Self, AuthError> {
        let algorithm = if version >= Version::SHA256 {
            DigestAlgorithm::Sha256
        } else if version >= Version::DIGEST_ALGORITHMS {
            DigestAlgorithm::Sha1
        } else {
            DigestAlgorithm::Untold
        };
        Self::compute(algorithm, header_and_body, policy, crypto, work)
    }

    fn compute(
        algorithm: DigestAlgorithm,
        header_and_body: &[u8],
        policy: &Policy,
        crypto: &dyn Crypto,
        work: &mut Work,
    ) -> Result<Self, AuthError> {
        let hash = match algorithm {
            DigestAlgorithm::Sha256 => Hash::Sha256,
            DigestAlgorithm::Sha1 if policy.sha1 => Hash::Sha1,
            DigestAlgorithm::Sha1 => return Err(AuthError::NotAllowed { algorithm: "SHA-1" }),
            DigestAlgorithm::Md5 | DigestAlgorithm::Untold if policy.md5 => Hash::Md5,
            DigestAlgorithm::Md5 | DigestAlgorithm::Untold => {
                return Err(AuthError::NotAllowed { algorithm: "MD5" });
            }
        };
        work.spend(price::bytes(header_and_body.len()))?;
        Ok(Self { algorithm, bytes: crypto.hash(hash, &[header_and_body])? })
    }

    /// Checks that a digest in a response is that of the request as it was sent.
    pub fn check(
        digest: &RequestDigest<'_>,
        header_and_body: &[u8],
        policy: &Policy,
        crypto: &dyn Crypto,
        work: &mut Work,
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
