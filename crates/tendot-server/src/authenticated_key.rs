//! Authenticated identity with the fingerprint of its key: a session ends when the key leaves the record.

use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, Digest, HashAlgorithm};
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};
use tendot_registry::{Caller, Error, HandleIdentity, Registry};

/// Authenticated identity, and the fingerprint of the key that proved it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AuthenticatedKey {
    pub(crate) identity: HandleIdentity,
    pub(crate) fingerprint: Digest,
}

impl AuthenticatedKey {
    /// Identity of a claim that this key has proved.
    pub(crate) fn new(claim: &ValueReference<'_>, key: &HandleValue<'_>) -> Option<Self> {
        let identity = HandleIdentity::from_proof(key.index, claim.handle().as_bytes())?;
        Some(Self { identity, fingerprint: fingerprint(key)? })
    }

    /// Name for limits per identity: index and canonical handle.
    pub(crate) fn account(&self) -> String {
        format!("{}:{}", self.identity.index(), canonical_handle(self.identity.handle()))
    }

    /// Whether the record still has the key.
    pub(crate) async fn is_current(&self, registry: &Registry, budget: &mut Budget) -> Result<bool, Error> {
        let keys = registry.current_key_values(self.identity.handle(), budget).await?;
        Ok(keys.iter().any(|key| {
            key.index == self.identity.index()
                && fingerprint(key).is_some_and(|fingerprint| fingerprint == self.fingerprint)
        }))
    }
}

impl From<AuthenticatedKey> for Caller {
    fn from(authenticated: AuthenticatedKey) -> Self {
        Self::Handle(authenticated.identity)
    }
}

/// Fingerprint of a key: SHA-256 of its type and data.
pub(crate) fn fingerprint(key: &HandleValue<'_>) -> Option<Digest> {
    AwsLcProvider.hash(HashAlgorithm::Sha256, &[&key.value_type, &key.data]).ok()
}

/// Canonical form of a handle for limits per identity: one for all spellings that name its record.
pub(crate) fn canonical_handle(handle: Handle<'_>) -> String {
    String::from_utf8_lossy(&handle.qualified().to_ascii_uppercase()).into_owned()
}
