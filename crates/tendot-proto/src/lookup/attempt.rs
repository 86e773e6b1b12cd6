use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::error::{AttemptError, FailedAttempt};
use crate::framing::Framer;
use crate::record::{Server, Site, Transport};
use crate::tunnel;

/// A server that may be asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) site: Arc<Site<'static>>,
    /// Which of the site's servers it is.
    pub(super) place: usize,
    pub(super) ip: IpAddr,
    /// A bit for each transport of the configuration that has been tried.
    pub(super) tried: u32,
}

impl Target {
    pub(super) fn server(&self) -> Option<&Server<'static>> {
        self.site.servers.get(self.place)
    }

    /// Whether both are one server, whatever the transport.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let interfaces = |target: &Self| target.server().map(|server| server.interfaces.clone());
        self.ip == other.ip && interfaces(self) == interfaces(other)
    }

    /// The host of HTTP requests.
    pub(super) fn host(&self, to: SocketAddr) -> String {
        match self.site.domain(self.place) {
            Some(domain) => alloc::format!("{domain}:{}", to.port()),
            None => alloc::format!("{to}"),
        }
    }
}

/// A request that was sent to one server in one way.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: u32,
    pub(super) transport: Transport,
    pub(super) to: SocketAddr,
    pub(super) target: Target,
    pub(super) request_id: u32,
    /// The message, without HTTP.
    pub(super) request: Vec<u8>,
    pub(super) started: Duration,
    /// How often it was sent.
    pub(super) sent: usize,
    /// When to send again, or to wait no longer.
    pub(super) next: Duration,
    /// Whether it is waited for. What comes later is still welcome.
    pub(super) waiting: bool,
    pub(super) error: Option<AttemptError>,
    pub(super) framer: Framer,
    /// What has come of the head of an HTTP response; none when it has been read, or if there is none.
    pub(super) head: Option<Vec<u8>>,
}

impl Attempt {
    /// Takes bytes of a connection.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), AttemptError> {
        let Some(head) = &mut self.head else {
            self.framer.push(bytes);
            return Ok(());
        };
        // After an error nothing more is kept, however much comes.
        if let Some(error @ AttemptError::Tunnel(_)) = self.error {
            head.clear();
            return Err(error);
        }
        head.extend_from_slice(bytes);
        let Some(body) = tunnel::response_body(head)?.and_then(|body| head.get(body..)) else {
            return Ok(());
        };
        // A line break before the message may come in two parts.
        if body.len() >= 2 {
            self.framer.push(tunnel::message_in(body));
            self.head = None;
        }
        Ok(())
    }

    pub(super) fn give_up(&mut self, error: AttemptError) {
        self.waiting = false;
        self.error = Some(error);
    }

    pub(super) fn failed(&self) -> FailedAttempt {
        let error = self.error.unwrap_or(AttemptError::Silent);
        FailedAttempt { transport: self.transport, to: self.to, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::TunnelError;

    #[test]
    fn a_head_without_end() {
        let ip = IpAddr::from([192, 0, 2, 1]);
        let mut attempt = Attempt {
            id: 1,
            transport: Transport::HTTP,
            to: SocketAddr::new(ip, 8000),
            target: Target { site: Arc::default(), place: 0, ip, tried: 0 },
            request_id: 1,
            request: Vec::new(),
            started: Duration::ZERO,
            sent: 1,
            next: Duration::ZERO,
            waiting: true,
            error: None,
            framer: Framer::new(),
            head: Some(b"HTTP/1.1 200 OK\r\n".to_vec()),
        };
        for _ in 0..1000 {
            if let Err(error) = attempt.push(&b"a: b\r\n".repeat(100)) {
                attempt.give_up(error);
            }
            assert!(attempt.head.as_ref().unwrap().len() < 2 * tunnel::HEAD);
        }
        assert_eq!(attempt.error, Some(AttemptError::Tunnel(TunnelError::HeadTooLong)));
    }
}
