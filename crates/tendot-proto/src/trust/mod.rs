//! Signed records: the JSON Web Signatures inside `HS_CERT` and `HS_SIGNATURE`, what they claim, and whether they are to
//! be believed.
//!
//! A record is believed if each of its public values is covered by a signature whose signer is certified, by whoever
//! is certified in turn, up to a key that was known beforehand. Nothing is looked up here: where a further record is
//! needed, [`verify`] says which.

mod chain;
mod claims;
mod jws;
mod scope;
mod sign;
mod verify;

pub use chain::{RecordSet, TrustAnchors};
pub use claims::Claims;
pub use jws::{Jws, JwsAlgorithm, JwsSignature};
pub use sign::{IssuerClaims, sign_certificate, sign_record};
pub use verify::{TrustError, VerificationReport, verify_record};
