//! One request to one server over one transport.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::error::{AttemptError, ConnectionError, FailedAttempt};
use crate::record::{InterfaceProtocol, Site, SiteServer};
use crate::transport::Framer;
use crate::transport::tunnel::{self, TunnelError};

/// Server address to query.
#[derive(Clone, Debug)]
pub(super) struct ServerTarget {
    pub(super) site: Arc<Site<'static>>,
    /// Index of the server in its site.
    pub(super) place: usize,
    pub(super) ip: IpAddr,
    /// Bit set of the configured transports that were tried.
    pub(super) tried: u32,
}

impl ServerTarget {
    pub(super) fn server(&self) -> Option<&SiteServer<'static>> {
        self.site.servers.get(self.place)
    }

    /// Whether both are the same server, whatever the transport.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        let interfaces = |target: &Self| target.server().map(|server| server.interfaces.clone());
        self.ip == other.ip && interfaces(self) == interfaces(other)
    }

    /// Host of HTTP requests.
    pub(super) fn http_host(&self, to: SocketAddr) -> String {
        match self.site.domain(self.place) {
            Some(domain) => alloc::format!("{domain}:{}", to.port()),
            None => alloc::format!("{to}"),
        }
    }
}

/// Request sent to one server over one transport.
pub(super) struct Attempt {
    pub(super) id: u32,
    pub(super) transport: InterfaceProtocol,
    pub(super) to: SocketAddr,
    pub(super) target: ServerTarget,
    pub(super) request_id: u32,
    /// Encoded message, without HTTP head.
    pub(super) request: Vec<u8>,
    pub(super) started: Duration,
    /// Number of times it was sent.
    pub(super) sent: usize,
    /// Time of the next retransmission, or of the timeout.
    pub(super) next: Duration,
    /// Whether the attempt still waits. A late response is accepted, too.
    pub(super) waiting: bool,
    pub(super) error: Option<AttemptError>,
    pub(super) framer: Framer,
    /// Incomplete head of an HTTP response; none once it is parsed, or without HTTP.
    pub(super) head: Option<Head>,
}

/// Incremental parser of the head of an HTTP tunnel response.
#[derive(Default)]
pub(super) struct Head {
    bytes: Vec<u8>,
    /// Bytes already searched for the end. The head may arrive byte by byte, and each byte is scanned once.
    searched: usize,
    /// Offset of the body, once known.
    body: Option<usize>,
}

impl Head {
    /// Appends bytes; returns the bytes after the head once it is complete.
    fn push(&mut self, bytes: &[u8]) -> Result<Option<&[u8]>, TunnelError> {
        self.bytes.extend_from_slice(bytes);
        if self.body.is_none() {
            let is_whole = self.scan_for_end() || self.bytes.len() >= tunnel::MAX_RESPONSE_HEAD_LEN;
            // Input that is not HTTP is detected at once; its end may never arrive.
            let start = if is_whole { None } else { self.bytes.get(..b"HTTP/1.".len()) };
            self.body = tunnel::find_response_body(start.unwrap_or(&self.bytes))?;
        }
        Ok(self.body.and_then(|body| self.bytes.get(body..)))
    }

    /// Whether an empty line ends in the bytes not searched yet.
    fn scan_for_end(&mut self) -> bool {
        let searched = core::mem::replace(&mut self.searched, self.bytes.len());
        let new = self.bytes.iter().enumerate().skip(searched);
        new.filter(|(_, byte)| **byte == b'\n').any(|(at, _)| {
            let before = self.bytes.get(..at).unwrap_or_default();
            before.ends_with(b"\n") || before.ends_with(b"\n\r")
        })
    }
}

impl Attempt {
    /// Handles bytes of a connection.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), AttemptError> {
        let Some(head) = &mut self.head else {
            self.framer.push(bytes);
            return Ok(());
        };
        // After an error nothing more is stored.
        if let Some(error @ AttemptError::Tunnel(_)) = self.error {
            *head = Head::default();
            return Err(error);
        }
        let Some(body) = head.push(bytes)? else { return Ok(()) };
        // The line break before the message may arrive in two parts.
        if body.len() >= 2 {
            self.framer.push(tunnel::strip_leading_newline(body));
            self.head = None;
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, error: AttemptError) {
        self.waiting = false;
        self.error = Some(error);
    }

    /// Whether the server may have received the request.
    pub(super) fn may_have_been_received(&self) -> bool {
        let unsent = [ConnectionError::Unreachable, ConnectionError::Insecure].map(AttemptError::Connection);
        self.error.is_none_or(|error| !unsent.contains(&error))
    }

    pub(super) fn to_failed_attempt(&self) -> FailedAttempt {
        let error = self.error.unwrap_or(AttemptError::Silent);
        FailedAttempt { transport: self.transport, to: self.to, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-hdl-message\r\n\r\n";

    fn attempt() -> Attempt {
        let ip = IpAddr::from([192, 0, 2, 1]);
        Attempt {
            id: 1,
            transport: InterfaceProtocol::HTTP,
            to: SocketAddr::new(ip, 8000),
            target: ServerTarget { site: Arc::default(), place: 0, ip, tried: 0 },
            request_id: 1,
            request: Vec::new(),
            started: Duration::ZERO,
            sent: 1,
            next: Duration::ZERO,
            waiting: true,
            error: None,
            framer: Framer::new(),
            head: Some(Head::default()),
        }
    }

    #[test]
    fn a_head_without_end() {
        let mut attempt = attempt();
        attempt.push(b"HTTP/1.1 200 OK\r\n").unwrap();
        for _ in 0..1000 {
            if let Err(error) = attempt.push(&b"a: b\r\n".repeat(100)) {
                attempt.fail(error);
            }
            assert!(attempt.head.as_ref().unwrap().bytes.len() < 2 * tunnel::MAX_RESPONSE_HEAD_LEN);
        }
        assert_eq!(attempt.error, Some(AttemptError::Tunnel(TunnelError::HeadTooLong)));
    }

    /// The result does not depend on how the input is split.
    #[test]
    fn a_head_in_parts() {
        let old = b"HTTP/1.0 500 x\nContent-Type: application/x-hdl-message\n\n";
        for head in [HEAD, old] {
            let received = [head, b"\r\n", &[2; 30]].concat();
            for size in 1..=received.len() {
                let mut parts = Head::default();
                let mut body = None;
                for (number, part) in received.chunks(size).enumerate() {
                    body = parts.push(part).unwrap().map(<[u8]>::to_vec);
                    let come = (size * (number + 1)).min(received.len());
                    assert_eq!(body.is_some(), come >= head.len(), "{size} {come}");
                }
                assert_eq!(body.unwrap(), received[head.len()..], "{size}");
            }
        }
        for other in [&b"SSH-2.0"[..], b"HTTP/2", b"\n"] {
            assert_eq!(Head::default().push(other), Err(TunnelError::NotHttp));
        }
    }

    /// An end written into bytes already searched is not found: nothing is scanned twice.
    #[test]
    fn a_head_is_searched_once() {
        let mut head = Head::default();
        head.push(HEAD.get(..40).unwrap()).unwrap();
        head.bytes[15..19].copy_from_slice(b"\r\n\r\n");
        assert_eq!(head.push(HEAD.get(40..50).unwrap()), Ok(None));
    }
}
