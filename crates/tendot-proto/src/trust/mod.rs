//! Signed records: JWS in `HS_CERT` and `HS_SIGNATURE`, certificate chains and verification.
//!
//! A record is trusted if each of its public values is covered by a signature whose signer has a certificate chain to a
//! trust anchor. Nothing is resolved here: if a further record is needed, [`RecordVerification`] names it.
//!
//! Reading order: `jws`, `claims`, `chain`, `scope`, `sign`, `signer`, `verify`,
//! `verification`.

mod chain;
mod claims;
mod jws;
mod scope;
mod sign;
mod signer;
mod verification;
mod verify;

pub use chain::{RecordSet, TrustAnchors};
pub use claims::Claims;
pub use jws::{Jws, JwsAlgorithm, JwsSignature};
pub use sign::{IssuerClaims, sign_certificate, sign_record};
pub use signer::{RecordSigner, is_signature};
pub use verification::{RecordVerification, VerificationStep};
pub use verify::{RejectedSignature, TrustError, ValidSignature, VerificationReport, verify_record};
