//! Authentication of HTTP requests.
//!
//! In reading order:
//!
//! - `credentials.rs`: `Authorization` header, cross-site check
//! - `auth_params.rs`: parameters of the `Handle` scheme
//! - `authenticate.rs`: credentials to caller
//! - `key_proof.rs`: signatures and MACs of nonces
//! - `challenge.rs`: `WWW-Authenticate`
//! - `session_table.rs`: bounded table of sessions
//! - `caller_class.rs`: whose share of a resource a request uses
//! - `credential_watch.rs`: end of the credentials of a long response
//!
//! `guess_throttle.rs` at the root of the crate limits failed attempts, also those of the native protocol.
//!
//! There are no cookies: credentials come in a header that a page of another site cannot make a browser send, which is why a
//! client certificate counts only if a header claims it. Browsers do send stored passwords for pages of other sites; those are
//! ignored (`is_cross_site_credential`).

mod auth_params;
mod authenticate;
mod caller_class;
mod challenge;
mod credential_watch;
mod credentials;
mod key_proof;
mod session_table;

use std::time::Duration;

pub(crate) use auth_params::{AuthParams, AuthParamsJson, ChallengeAnswer};
pub(crate) use authenticate::{AuthenticationCell, Authenticator};
pub(crate) use caller_class::CallerClass;
pub(crate) use challenge::SERVER_SIGNATURE_ALGORITHM;
pub(crate) use credentials::{HttpCredentials, is_cross_site_credential};
use key_proof::KeyProof;
pub(crate) use session_table::{HttpSession, HttpSessionId, HttpSessionTable};
use tendot_proto::auth::AuthError;

use crate::http::request::percent::{INVALID_UTF8, RequestSyntaxError};

/// Reason a caller could not be authenticated.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error("invalid `Authorization` header; supported schemes: Basic, Bearer, Handle")]
    Malformed,
    /// Not a guess, but a request that cannot be read: 400.
    #[error("invalid UTF-8 at byte {offset} of the identity in `Authorization`")]
    InvalidUtf8 { offset: usize },
    #[error("Missing fields in authentication data")]
    Incomplete,
    #[error("unknown or expired session")]
    NoSession,
    #[error("client nonce already used")]
    Replayed,
    #[error("Identity not verified")]
    Failed,
    #[error("the client certificate is expired or not yet valid")]
    CertificateExpired,
    #[error("unknown, revoked or expired token")]
    InvalidToken,
    #[error("the key is stored at another server of the site: send the password with each request")]
    KeyAtPeer,
    #[error(transparent)]
    Rejected(AuthError),
    #[error("too many failed attempts; retry later")]
    Throttled(Duration),
    #[error("authentication unavailable: the store, or another server of the site, failed")]
    Unavailable,
}

impl From<&RequestSyntaxError> for AuthenticationError {
    fn from(error: &RequestSyntaxError) -> Self {
        match error.reason {
            INVALID_UTF8 => Self::InvalidUtf8 { offset: error.offset },
            _ => Self::Malformed,
        }
    }
}
