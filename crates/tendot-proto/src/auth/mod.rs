//! Authentication: keys, challenges, message credentials and sessions.
//!
//! Nothing here resolves handles. A server that receives a challenge response removes the challenge from its
//! [`ChallengeTable`], decides whether the claimed identity has the permission, fetches the key values of its record
//! and passes them to [`PendingChallenge::verify`].
//!
//! Algorithms come from a [`CryptoProvider`](crate::crypto::CryptoProvider); [`AuthPolicy`] decides which of them a
//! peer may use; a [`Budget`](crate::Budget) limits the work. [`AuthContext`] holds the three.
//!
//! Reading order: `policy`, `context`, `cost`, `signature`, `credential`, `computed_digest`, `challenge`, `session`; then
//! `key_file`, `key_encodings`, `der` and `pbkdf2`; `error`.

mod challenge;
mod computed_digest;
mod context;
pub(crate) mod cost;
mod credential;
mod der;
mod error;
mod key_encodings;
mod key_file;
mod pbkdf2;
mod policy;
mod session;
mod signature;

pub use crate::message::ChallengeResponse;
pub use challenge::{
    Challenge, ChallengeLimits, ChallengeTable, ClientKey, PendingChallenge, PublicKeyResponse, SecretKeyMac,
    SecretKeyResponse,
};
pub use computed_digest::ComputedDigest;
pub use context::AuthContext;
pub use credential::{CredentialError, add_mac, sign_message, verify_message_mac, verify_message_signature};
pub use error::AuthError;
pub use key_file::{KeyFileError, PrivateKey};
pub use policy::{AuthPolicy, SecretKeyMacSet};
pub use session::{
    ClientKeyExchange, DhGroup, ServerKeyExchange, ServerSession, Session, SessionError, SessionKey,
    SessionLimits, SessionTable,
};
pub use signature::{PublicKeyError, validate_public_key};
pub(crate) use signature::{sign, verify, verify_with_hash_name};
