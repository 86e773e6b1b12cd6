//! SHA-256.

use aws_lc_rs::digest::{SHA256, digest};

/// Hashes some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}
