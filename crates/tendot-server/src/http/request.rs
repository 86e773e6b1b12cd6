use std::net::IpAddr;

use http::{HeaderMap, Version};

/// Head of a request: query, headers, HTTP version and client facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead<'a> {
    /// What stands after the question mark, not decoded.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) version: Version,
    /// Where it comes from.
    pub(crate) client: Option<IpAddr>,
    /// Whether that is this machine.
    pub(crate) is_here: bool,
    /// Whether passwords and tokens are taken on this connection.
    pub(crate) takes_credentials: bool,
    /// The certificate that the client has shown.
    pub(crate) certificate: Option<&'a [u8]>,
}
