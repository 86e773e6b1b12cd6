//! Signed statements about records: the JSON Web Signatures inside `HS_CERT` and `HS_SIGNATURE`, and what they claim.

mod claims;
mod jws;

pub use claims::Claims;
pub use jws::{Jws, JwsAlgorithm, JwsSignature};
