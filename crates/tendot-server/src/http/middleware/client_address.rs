//! Client address: the peer of the connection, or the client that a trusted proxy reports.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, VIA};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Proxy hops that are examined, from the last one back.
const MAX_FORWARDED_HOPS: usize = 32;

/// Remote end of a connection: address, TLS, client certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ConnectionPeer {
    pub(crate) address: IpAddr,
    pub(crate) is_encrypted: bool,
    /// Client certificate; the client has proved possession of its key.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

/// Header in which trusted proxies report the client (`X-Forwarded-*` or RFC 7239).
///
/// Headers other than the configured one are ignored: clients can forge them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Trusted proxies, and whether clients on loopback are trusted.
#[derive(Clone, Debug)]
pub struct ProxyTrust {
    /// Networks of trusted proxies.
    pub trusted_proxies: Vec<IpNet>,
    /// Header in which they report the client.
    pub forwarded_by: ForwardedBy,
    /// Whether a client on loopback is on this machine, and not behind a proxy that sends no headers: it may send credentials
    /// over plain HTTP, read `/metrics`, and is exempt from the rate limits.
    pub trust_loopback: bool,
}

impl Default for ProxyTrust {
    fn default() -> Self {
        Self { trusted_proxies: Vec::new(), forwarded_by: ForwardedBy::default(), trust_loopback: true }
    }
}

/// Client of a request as derived from the connection and trusted headers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RemoteClient {
    pub(crate) address: IpAddr,
    /// Whether the client itself is on loopback, not only a proxy.
    pub(crate) is_loopback: bool,
    /// Whether the connection is from a trusted proxy.
    pub(crate) is_proxied: bool,
    /// Whether an untrusted proxy on loopback forwarded the request.
    pub(crate) is_untrusted_proxy: bool,
    /// Whether the client sent the request over TLS.
    pub(crate) is_encrypted: bool,
    /// Whether credentials are accepted: the transport was secure.
    pub(crate) accepts_credentials: bool,
    /// Client certificate; a proxy's certificate is not its client's.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

impl ProxyTrust {
    /// Whether an address is that of a trusted proxy.
    pub(crate) fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }

    /// Derives the client of a request from the connection and its headers.
    pub(crate) fn resolve_client(&self, peer: &ConnectionPeer, headers: &HeaderMap) -> RemoteClient {
        let peer_address = peer.address.to_canonical();
        // A proxy on loopback relays requests from anywhere, whether it is configured as trusted or not.
        let is_forwarded = peer_address.is_loopback()
            && headers.keys().any(|name| [X_FORWARDED_FOR, X_FORWARDED_PROTO, FORWARDED, VIA].contains(name));
        let is_loopback = self.trust_loopback && peer_address.is_loopback() && !is_forwarded;
        if !is_loopback && self.is_trusted_proxy(peer_address) {
            let (address, is_encrypted) = match self.forwarded_by {
                ForwardedBy::XForwarded => self.parse_x_forwarded(headers),
                ForwardedBy::Forwarded => self.parse_forwarded(headers),
            };
            return RemoteClient {
                address: address.unwrap_or(peer_address),
                is_loopback: false,
                is_proxied: true,
                is_untrusted_proxy: false,
                is_encrypted,
                accepts_credentials: is_encrypted,
                certificate: None,
            };
        }
        RemoteClient {
            address: peer_address,
            is_loopback,
            is_proxied: false,
            is_untrusted_proxy: is_forwarded,
            is_encrypted: peer.is_encrypted,
            accepts_credentials: peer.is_encrypted || is_loopback,
            certificate: peer.certificate.clone(),
        }
    }

    fn parse_x_forwarded(&self, headers: &HeaderMap) -> (Option<IpAddr>, bool) {
        let address =
            self.last_untrusted_hop(list_header_values(headers, X_FORWARDED_FOR).map(parse_address));
        let mut schemes = list_header_values(headers, X_FORWARDED_PROTO).peekable();
        let is_present = schemes.peek().is_some();
        (address, is_present && schemes.all(|scheme| scheme.eq_ignore_ascii_case("https")))
    }

    fn parse_forwarded(&self, headers: &HeaderMap) -> (Option<IpAddr>, bool) {
        let parameter = |hop: &'_ str, wanted: &str| {
            hop.split(';').find_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"').to_owned())
            })
        };
        let hops = || list_header_values(headers, FORWARDED);
        let client = self.last_untrusted_hop(hops().map(|hop| parse_address(&parameter(hop, "for")?)));
        let mut schemes = hops().map(|hop| parameter(hop, "proto")).peekable();
        let is_present = schemes.peek().is_some();
        (
            client,
            is_present
                && schemes.all(|scheme| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))),
        )
    }

    /// Last hop that is not a trusted proxy; earlier hops may be forged. A value that is not an address ends the search, and
    /// the hop after it is the client.
    fn last_untrusted_hop(&self, hops: impl DoubleEndedIterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        let mut last = None;
        for hop in hops.rev().take(MAX_FORWARDED_HOPS).map_while(|hop| hop) {
            last = Some(hop);
            if !self.is_trusted_proxy(hop) {
                break;
            }
        }
        last
    }
}

/// Comma-separated values of all fields with this name, in order.
fn list_header_values(headers: &HeaderMap, name: HeaderName) -> impl DoubleEndedIterator<Item = &str> {
    let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?")).collect();
    lines.into_iter().flat_map(|line| line.split(',')).map(str::trim)
}

/// Parses an address, also with a port or in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(inside, _)| inside);
    let parsed: Result<IpAddr, _> = bare.unwrap_or(text).parse();
    let with_port = || text.parse::<std::net::SocketAddrV4>().map(|address| IpAddr::V4(*address.ip()));
    parsed.or_else(|_| with_port()).ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PROXIES: ProxyTrust = ProxyTrust {
        trusted_proxies: Vec::new(),
        forwarded_by: ForwardedBy::XForwarded,
        trust_loopback: true,
    };

    fn behind_proxies(forwarded_by: ForwardedBy) -> ProxyTrust {
        let trusted_proxies =
            ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"].map(|text| text.parse().unwrap()).to_vec();
        ProxyTrust { trusted_proxies, forwarded_by, trust_loopback: true }
    }

    #[test]
    fn attack_h8_untrusted_forwarded_headers() {
        check(&NO_PROXIES, "192.0.2.1", "", "192.0.2.1 plain");
        check(
            &NO_PROXIES,
            "192.0.2.1",
            "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: https",
            "192.0.2.1 plain",
        );
        check(&NO_PROXIES, "127.0.0.1", "", "127.0.0.1 loopback safe");
        check(&NO_PROXIES, "::ffff:127.0.0.1", "", "127.0.0.1 loopback safe");
        // Loopback proxy that is not trusted.
        check(&NO_PROXIES, "127.0.0.1", "X-Forwarded-For: 192.0.2.1", "127.0.0.1 plain");
        check(&NO_PROXIES, "127.0.0.1", "Via: 1.1 nginx", "127.0.0.1 plain");
        let without_loopback = ProxyTrust { trust_loopback: false, ..NO_PROXIES };
        check(&without_loopback, "127.0.0.1", "", "127.0.0.1 plain");
        let distrusting = ProxyTrust { trust_loopback: false, ..behind_proxies(ForwardedBy::XForwarded) };
        check(&distrusting, "127.0.0.1", "", "127.0.0.1 proxied plain");
    }

    #[test]
    fn attack_h8_trusted_proxies() {
        let trust = behind_proxies(ForwardedBy::XForwarded);
        let https = "X-Forwarded-Proto: https\n";
        check(&trust, "10.0.0.1", "X-Forwarded-For: 192.0.2.1", "192.0.2.1 proxied plain");
        check(&trust, "10.0.0.1", &format!("{https}X-Forwarded-For: 192.0.2.1"), "192.0.2.1 proxied safe");
        // The last hop that is not a proxy; the earlier ones are forged.
        check(
            &trust,
            "10.0.0.1",
            "X-Forwarded-For: 127.0.0.1, 192.0.2.1, 10.1.1.1",
            "192.0.2.1 proxied plain",
        );
        check(
            &trust,
            "10.0.0.1",
            "X-Forwarded-For: 127.0.0.1\nX-Forwarded-For: 192.0.2.1",
            "192.0.2.1 proxied plain",
        );
        check(&trust, "10.0.0.1", "X-Forwarded-For: 10.1.1.1", "10.1.1.1 proxied plain");
        check(&trust, "10.0.0.1", "X-Forwarded-For: 192.0.2.1, unknown", "10.0.0.1 proxied plain");
        check(&trust, "10.0.0.1", "X-Forwarded-For: 192.0.2.1:555", "192.0.2.1 proxied plain");
        check(&trust, "fd00::1", "X-Forwarded-For: [2001:db8::1]:555", "2001:db8::1 proxied plain");
        check(&trust, "10.0.0.1", "Forwarded: for=192.0.2.1;proto=https", "10.0.0.1 proxied plain");
        check(&trust, "10.0.0.1", "X-Forwarded-Proto: http, https", "10.0.0.1 proxied plain");
        // Through a loopback proxy, no client counts as loopback.
        check(&trust, "127.0.0.1", "X-Forwarded-For: 127.0.0.1", "127.0.0.1 proxied plain");
        check(&trust, "127.0.0.1", "X-Forwarded-Proto: https", "127.0.0.1 proxied safe");
        // A direct loopback connection does.
        check(&trust, "127.0.0.1", "", "127.0.0.1 loopback safe");
        let many = format!("X-Forwarded-For: 192.0.2.1{}", ", 10.0.0.1".repeat(10_000));
        check(&trust, "10.0.0.1", &many, "10.0.0.1 proxied plain");
    }

    #[test]
    fn forwarded() {
        let trust = behind_proxies(ForwardedBy::Forwarded);
        let check = |headers, expected| check(&trust, "10.0.0.1", headers, expected);
        check("Forwarded: for=192.0.2.1;proto=https", "192.0.2.1 proxied safe");
        check("Forwarded: For=\"[2001:db8::1]:99\" ; Proto=http", "2001:db8::1 proxied plain");
        check("Forwarded: for=1.1.1.1;proto=https, for=192.0.2.1;proto=https", "192.0.2.1 proxied safe");
        check("Forwarded: for=1.1.1.1;proto=http, for=192.0.2.1;proto=https", "192.0.2.1 proxied plain");
        check("Forwarded: for=_hidden", "10.0.0.1 proxied plain");
        check("X-Forwarded-For: 1.1.1.1\nX-Forwarded-Proto: https", "10.0.0.1 proxied plain");
    }

    #[track_caller]
    fn check(trust: &ProxyTrust, peer: &str, headers: &str, expected: &str) {
        let peer = ConnectionPeer { address: peer.parse().unwrap(), is_encrypted: false, certificate: None };
        let mut map = HeaderMap::new();
        for line in headers.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let client = trust.resolve_client(&peer, &map);
        let mut found = client.address.to_string();
        for (is, word) in [(client.is_loopback, " loopback"), (client.is_proxied, " proxied")] {
            found.push_str(if is { word } else { "" });
        }
        found.push_str(if client.accepts_credentials { " safe" } else { " plain" });
        assert_eq!(found, expected, "{headers}");
    }

    #[test]
    fn encrypted() {
        let peer = ConnectionPeer { address: [192, 0, 2, 1].into(), is_encrypted: true, certificate: None };
        assert!(NO_PROXIES.resolve_client(&peer, &HeaderMap::new()).accepts_credentials);
    }
}
