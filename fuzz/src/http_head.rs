//! Bytes of a connection: requests are answered, whatever they are, and the pieces that they arrive in do not matter.
//!
//! The first byte says where the input is divided.

use crate::http_service::{exchange, first_status};

pub(crate) fn check(bytes: &[u8]) {
    let Some((division, sent)) = bytes.split_first() else { return };
    // HTTP/2 may answer in any order.
    if sent.starts_with(b"PRI") {
        exchange(&[sent]);
        return;
    }
    let whole = exchange(&[sent]);
    let (first, second) = sent.split_at(usize::from(*division).min(sent.len()));
    let divided = exchange(&[first, second]);
    let statuses = [&whole, &divided].map(|received| first_status(received));
    // A head without an end may be refused when its beginning is read, or not be answered at all.
    let has_end =
        sent.windows(2).any(|two| two == b"\n\n") || sent.windows(3).any(|three| three == b"\n\r\n");
    if has_end || !statuses.contains(&None) {
        assert_eq!(statuses[0], statuses[1], "whole, and divided at {}", first.len());
    }
}
