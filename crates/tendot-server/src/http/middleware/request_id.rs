//! Request ids (`X-Request-Id`): from a trusted proxy, or generated.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const MAX_REQUEST_ID_LEN: usize = 128;

/// Generates request ids that are unique per process.
#[derive(Debug)]
pub(crate) struct RequestIdGenerator {
    start: u64,
    generated: AtomicU64,
}

impl RequestIdGenerator {
    pub(crate) fn new() -> Self {
        Self { start: RandomState::new().hash_one(0_u8), generated: AtomicU64::new(0) }
    }

    /// Id of a request: the one a trusted proxy sent, or a new one.
    pub(crate) fn id_for(&self, headers: &HeaderMap, is_proxied: bool) -> HeaderValue {
        let from_proxy = headers.get(&X_REQUEST_ID).filter(|id| is_proxied && is_valid_id(id.as_bytes()));
        from_proxy.cloned().unwrap_or_else(|| self.generate())
    }

    /// Generates an id.
    pub(crate) fn generate(&self) -> HeaderValue {
        // Bijective mixing: distinct numbers stay distinct.
        let mut mixed = self.start.wrapping_add(self.generated.fetch_add(1, Ordering::Relaxed));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let digits: [u8; 16] = std::array::from_fn(|index| match (mixed >> (60 - 4 * index)) as u8 & 15 {
            digit @ 0..10 => b'0' + digit,
            digit => b'a' + digit - 10,
        });
        HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("0"))
    }
}

fn is_valid_id(id: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_REQUEST_ID_LEN).contains(&id.len()) && id.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn generated_or_from_proxy() {
        let ids = RequestIdGenerator::new();
        let generated: HashSet<_> = (0..1_000).map(|_| ids.generate()).collect();
        assert!(generated.len() == 1_000 && generated.iter().all(|id| id.len() == 16));
        let is_accepted = |sent: &str, is_proxied| {
            let headers = HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_str(sent).unwrap())]);
            ids.id_for(&headers, is_proxied) == sent
        };
        assert!(is_accepted("abc-1", true));
        assert!(!is_accepted("abc-1", false));
        assert!(
            !is_accepted("a b", true)
                && !is_accepted("", true)
                && !is_accepted("a\"b", true)
                && !is_accepted(&"a".repeat(129), true)
        );
    }
}
