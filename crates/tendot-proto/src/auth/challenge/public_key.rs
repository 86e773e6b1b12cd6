//! Public-key challenge responses.

use alloc::vec::Vec;

use super::Challenge;
use crate::auth::context::AuthContext;
use crate::auth::cost;
use crate::auth::error::AuthError;
use crate::auth::signature::{signature_hash_for, verify_with_hash_name};
use crate::crypto::{HashAlgorithm, SigningKey};
use crate::error::DecodeError;
use crate::message::ProtocolVersion;
use crate::record::PublicKey;
use crate::wire::{WireReader, WireWriter};

/// Public-key challenge response: hash name and signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicKeyResponse<'a> {
    /// Name of the hash algorithm. RSA or DSA is decided by the key, never by the response.
    pub hash: &'a [u8],
    /// Signature of nonce and digest.
    pub signature: &'a [u8],
}

impl<'a> PublicKeyResponse<'a> {
    /// Decodes a response.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let response = Self { hash: reader.bytes("hash algorithm")?, signature: reader.bytes("signature")? };
        reader.expect_end("challenge response")?;
        Ok(response)
    }

    /// Encodes the response.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = WireWriter::new(&mut out);
        writer.bytes(self.hash);
        writer.bytes(self.signature);
        out
    }

    /// Verifies the signature of the challenge.
    pub fn verify(
        &self,
        key: &PublicKey<'_>,
        challenge: Challenge<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), AuthError> {
        let signed = [challenge.nonce, challenge.digest].concat();
        verify_with_hash_name(key, self.hash, &signed, self.signature, context)
    }

    /// Creates a response for a peer of this version. Before 2.7 it uses SHA-1, if the policy allows it.
    pub fn create(
        key: &dyn SigningKey,
        challenge: Challenge<'_>,
        version: ProtocolVersion,
        context: &mut AuthContext<'_>,
    ) -> Result<Vec<u8>, AuthError> {
        let hash = signature_hash_for(version);
        if hash == HashAlgorithm::Sha1 && !context.policy.allow_sha1 {
            return Err(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" });
        }
        context.budget.charge(cost::sign(key.signature_len()))?;
        let signature = key.sign(hash, &[challenge.nonce, challenge.digest].concat())?;
        Ok(PublicKeyResponse { hash: hash.name().as_bytes(), signature: &signature }.to_bytes())
    }
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use super::*;
    use crate::Budget;
    use crate::auth::context::auth_context;
    use crate::auth::{AuthPolicy, PrivateKey};
    use crate::crypto::AwsLcProvider;

    const CHALLENGE: Challenge<'_> = Challenge { nonce: b"0123456789abcdef", digest: &[7; 32] };

    #[test]
    fn round_trip() {
        let file = include_bytes!("../../../../../conformance/vectors/handle-net/admpriv.bin");
        let private =
            PrivateKey::from_file_bytes(file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST }).unwrap();
        let public = private.public_key().unwrap();
        let key = private.signing_key(&AwsLcProvider).unwrap();
        let response =
            PublicKeyResponse::create(&*key, CHALLENGE, ProtocolVersion::LATEST, auth_context!()).unwrap();
        let decoded = PublicKeyResponse::from_bytes(&response).unwrap();
        assert_eq!(decoded.to_bytes(), response);
        let policy = AuthPolicy::default();
        let check = |response: PublicKeyResponse<'_>, challenge, expected| {
            let verified = response.verify(&public, challenge, auth_context!(policy));
            assert_eq!(verified, expected);
        };
        check(decoded, CHALLENGE, Ok(()));
        check(PublicKeyResponse { hash: b"SHA256", ..decoded }, CHALLENGE, Ok(()));
        check(decoded, Challenge { nonce: b"other", ..CHALLENGE }, Err(AuthError::Failed));
        check(PublicKeyResponse { signature: &[], ..decoded }, CHALLENGE, Err(AuthError::Failed));
        let not_allowed = |algorithm| Err(AuthError::AlgorithmNotAllowed { algorithm });
        check(PublicKeyResponse { hash: b"SHA1", ..decoded }, CHALLENGE, not_allowed("SHA-1"));
        check(PublicKeyResponse { hash: b"MD5", ..decoded }, CHALLENGE, not_allowed("MD5"));
        check(PublicKeyResponse { hash: b"none", ..decoded }, CHALLENGE, Err(AuthError::UnknownAlgorithm));
        check(PublicKeyResponse { hash: b"", ..decoded }, CHALLENGE, Err(AuthError::UnknownAlgorithm));
        assert!(matches!(
            decoded.verify(
                &public,
                CHALLENGE,
                &mut AuthContext::new(&AwsLcProvider, policy, &mut Budget::new(5))
            ),
            Err(AuthError::Budget(_))
        ));
    }
}
