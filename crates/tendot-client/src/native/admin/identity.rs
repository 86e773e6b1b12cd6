//! Administrator identity and its key.

use std::fmt;
use std::sync::Arc;

use tendot_proto::auth::{ClientKey, KeyFileError, PrivateKey};
use tendot_proto::crypto::{AwsLcProvider, SigningKey};
use tendot_proto::{Budget, ValueReference};
use zeroize::Zeroizing;

/// Administrator identity: key reference (`300:0.NA/10.1000`) and its secret or private key.
///
/// ```
/// use tendot_client::native::AdminIdentity;
///
/// let admin = AdminIdentity::with_secret_key(301, "0.NA/10.1000", b"example-secret");
/// assert_eq!(format!("{admin:?}"), "AdminIdentity(301:0.NA/10.1000, SecretKey)");
/// assert!(AdminIdentity::with_key_file(300, "0.NA/10.1000", b"invalid", None).is_err());
/// ```
#[derive(Clone)]
pub struct AdminIdentity {
    reference: ValueReference<'static>,
    key: IdentityKey,
}

/// Secret key or private key of an identity.
#[derive(Clone)]
enum IdentityKey {
    Secret(Zeroizing<Vec<u8>>),
    Private(Arc<dyn SigningKey>),
}

impl AdminIdentity {
    /// Identity with the secret in `HS_SECKEY`.
    pub fn with_secret_key(index: u32, handle: &str, secret: &[u8]) -> Self {
        Self::new(index, handle, IdentityKey::Secret(Zeroizing::new(secret.to_vec())))
    }

    /// Identity with the private key of `HS_PUBKEY`.
    pub fn with_private_key(index: u32, handle: &str, key: &PrivateKey) -> Result<Self, KeyFileError> {
        Ok(Self::new(index, handle, IdentityKey::Private(key.signing_key(&AwsLcProvider)?.into())))
    }

    /// Identity with a Handle.Net key file, such as `admpriv.bin`.
    pub fn with_key_file(
        index: u32,
        handle: &str,
        file: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<Self, KeyFileError> {
        let key =
            PrivateKey::from_file_bytes(file, passphrase, &AwsLcProvider, &mut { Budget::PER_REQUEST })?;
        Self::with_private_key(index, handle, &key)
    }

    fn new(index: u32, handle: &str, key: IdentityKey) -> Self {
        Self { reference: ValueReference::new(index, handle.as_bytes().to_vec()), key }
    }

    /// Index and handle of the key value.
    pub const fn reference(&self) -> &ValueReference<'static> {
        &self.reference
    }

    /// Key for challenge responses.
    pub(crate) fn credentials(&self) -> ClientKey<'_> {
        match &self.key {
            IdentityKey::Secret(secret) => ClientKey::SecretKey(secret),
            IdentityKey::Private(key) => ClientKey::PrivateKey(&**key),
        }
    }
}

impl fmt::Debug for AdminIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminIdentity({}, {:?})", self.reference, self.credentials())
    }
}
