//! Who somebody is, and that a message is theirs: keys, challenges, credentials and sessions.
//!
//! Nothing here looks anything up. A server that has received an answer takes the challenge out of its
//! [`ChallengeTable`], finds out by its own means whether the identity has the right and what key values its record
//! has, and gives those to [`PendingChallenge::verify`].
//!
//! What is cryptography comes from a [`CryptoProvider`](crate::crypto::Crypto); what a peer may use of it says a [`AuthPolicy`];
//! what it may cost, a [`Budget`](crate::Work).

mod challenge;
mod credential;
mod error;
mod group;
mod identifier;
mod key_file;
mod pbkdf2;
mod policy;
mod price;
mod public_key;
mod request_digest;
mod secret_key;
mod session;
mod session_setup;
mod session_table;

pub use challenge::{
    Challenge, ChallengeLimits, ChallengeResponse, ChallengeTable, ClientKey, PendingChallenge,
};
pub use credential::{CredentialError, add_mac, sign_message, verify_message_mac, verify_message_signature};
pub use error::AuthError;
pub use group::DhGroup;
pub use key_file::{KeyFileError, PrivateKey};
pub use policy::AuthPolicy;
pub use public_key::{PublicKeyError, PublicKeyResponse, validate_public_key};
pub(crate) use public_key::{sign, verify, verify_with_hash_name};
pub use request_digest::ComputedDigest;
pub use secret_key::{SecretKeyMac, SecretKeyMacSet, SecretKeyResponse};
pub use session::{Session, SessionError, SessionKey};
pub use session_setup::{ClientKeyExchange, ServerKeyExchange};
pub use session_table::{ServerSession, SessionLimits, SessionTable};
