//! Loop detection: the `CDN-Loop` header (RFC 8586).

use http::HeaderName;

/// Header that lists the services that forwarded a request (RFC 8586), to detect forwarding loops.
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Prefix of the id of a Tendot service in [`CDN_LOOP`]; CDNs in between have other ids.
pub const CDN_LOOP_ID_PREFIX: &str = "tendot-";

/// Number of Tendot services in a `CDN-Loop` value.
pub(crate) fn service_count(cdn_loop: &str) -> usize {
    cdn_loop.split(',').filter(|id| id.trim_start().starts_with(CDN_LOOP_ID_PREFIX)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_tendot_services_only() {
        assert_eq!(service_count(""), 0);
        assert_eq!(service_count("cdn.example; loops=1, tendot-1"), 1);
        assert_eq!(service_count("tendot-1,cdn.example, tendot-2"), 2);
    }
}
