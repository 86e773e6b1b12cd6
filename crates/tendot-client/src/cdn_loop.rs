//! Loop detection: the `CDN-Loop` header (RFC 8586).

use std::borrow::Cow;

use tendot_proto::limits;

/// Header that lists the services that forwarded a request (RFC 8586), to detect forwarding loops.
#[cfg(feature = "http")]
pub const CDN_LOOP: http::HeaderName = http::HeaderName::from_static("cdn-loop");

/// Prefix of the id of a Tendot service in [`CdnLoop`]; CDNs in between have other ids.
pub const CDN_LOOP_ID_PREFIX: &str = "tendot-";

/// Services that forwarded a request, this one last: value of the header `CDN-Loop` (RFC 8586).
///
/// Empty if loops need not be detected, as for a request that starts here.
///
/// ```
/// use tendot_client::CdnLoop;
///
/// let forwarded = CdnLoop::forward([&b"tendot-1, cdn.example; x=1"[..]], "tendot-2").unwrap();
/// assert_eq!(forwarded.as_str(), "tendot-1, cdn.example; x=1, tendot-2");
/// // The request has been at this service before.
/// assert!(CdnLoop::forward([forwarded.as_str().as_bytes()], "tendot-1").is_none());
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CdnLoop<'a>(Cow<'a, str>);

impl<'a> CdnLoop<'a> {
    /// Maximum length of the received values, in bytes.
    const MAX_LEN: usize = 1_024;

    /// Adds the service `id` to the values received with a request.
    ///
    /// `None` is a forwarding loop: the request has been at this service before, or passed too many.
    pub fn forward<'r>(received: impl IntoIterator<Item = &'r [u8]>, id: &'a str) -> Option<Self> {
        let mut value = String::new();
        let mut service_count = 0;
        for line in received {
            let line = str::from_utf8(line).ok().filter(|line| line.is_ascii())?;
            for service in line.split(',').map(str::trim).filter(|service| !service.is_empty()) {
                // Parameters after the id do not matter (RFC 8586, section 2).
                let service_id = service.split(';').next().unwrap_or_default().trim_end();
                if service_id == id || value.len() + service.len() > Self::MAX_LEN {
                    return None;
                }
                value += service;
                value += ", ";
                service_count += 1;
            }
        }
        match service_count {
            0 => Some(Self(Cow::Borrowed(id))),
            _ if service_count >= usize::from(limits::MAX_RECURSION_COUNT) => None,
            _ => Some(Self(Cow::Owned(value + id))),
        }
    }

    /// Value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a Tendot service forwarded the request to this one.
    pub(crate) fn has_other_service(&self) -> bool {
        let ids = self.0.split(',').map(str::trim_start);
        ids.filter(|id| id.starts_with(CDN_LOOP_ID_PREFIX)).nth(1).is_some()
    }

    pub(crate) fn into_owned(self) -> CdnLoop<'static> {
        CdnLoop(Cow::Owned(self.0.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward<'a>(received: &[&str], id: &'a str) -> Option<CdnLoop<'a>> {
        CdnLoop::forward(received.iter().map(|line| line.as_bytes()), id)
    }

    #[test]
    fn counts_tendot_services_only() {
        assert!(!CdnLoop::default().has_other_service());
        assert!(!forward(&["cdn.example; loops=1"], "tendot-1").unwrap().has_other_service());
        assert!(forward(&["tendot-1,cdn.example"], "tendot-2").unwrap().has_other_service());
    }

    #[test]
    fn lists_are_joined() {
        assert_eq!(forward(&[], "tendot-1").unwrap().as_str(), "tendot-1");
        assert_eq!(forward(&["a,, b ;x=1 ", "", "c"], "d").unwrap().as_str(), "a, b ;x=1, c, d");
    }

    #[test]
    fn loops_are_detected() {
        assert!(forward(&["a, b ;x=1"], "b").is_none());
        assert!(forward(&["a", "b"], "b").is_none());
        assert!(forward(&["B"], "b").is_some(), "ids are compared exactly");
        let services = |count: usize| vec!["x"; count].join(",");
        assert!(forward(&[&services(9)], "b").is_some());
        assert!(forward(&[&services(10)], "b").is_none());
        assert!(forward(&[&"x".repeat(1_024)], "b").is_some());
        assert!(forward(&[&"x".repeat(1_025)], "b").is_none());
        assert!(CdnLoop::forward([&b"\xff"[..]], "b").is_none());
    }
}
