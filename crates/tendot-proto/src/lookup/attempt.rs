//! One request to one server over one transport.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use super::ServerTarget;
use super::error::{AttemptError, ConnectionError, FailedAttempt};
use crate::record::InterfaceProtocol;
use crate::transport::Framer;
use crate::transport::tunnel::ResponseHead;

/// Request sent to one server over one transport.
pub(super) struct Attempt {
    pub(super) id: u32,
    pub(super) transport: InterfaceProtocol,
    pub(super) to: SocketAddr,
    pub(super) target: ServerTarget,
    pub(super) request_id: u32,
    /// Encoded message, without HTTP head.
    pub(super) request: Vec<u8>,
    pub(super) started_at: Duration,
    /// Number of times it was sent.
    pub(super) times_sent: usize,
    /// Time of the next retransmission, or of the timeout.
    pub(super) next_timeout: Duration,
    /// Whether the attempt still waits. A late response is accepted, too.
    pub(super) is_waiting: bool,
    pub(super) error: Option<AttemptError>,
    pub(super) framer: Framer,
    /// Incomplete head of an HTTP response; none once it is parsed, or without HTTP.
    pub(super) head: Option<ResponseHead>,
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
            *head = ResponseHead::default();
            return Err(error);
        }
        if let Some(body) = head.push(bytes)? {
            self.framer.push(body);
            self.head = None;
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, error: AttemptError) {
        self.is_waiting = false;
        self.error = Some(error);
    }

    /// Whether the server may have received the request.
    pub(super) fn may_have_been_received(&self) -> bool {
        let unsent = [ConnectionError::Unreachable, ConnectionError::WrongPeer].map(AttemptError::Connection);
        self.error.is_none_or(|error| !unsent.contains(&error))
    }

    pub(super) fn to_failed_attempt(&self) -> FailedAttempt {
        let error = self.error.unwrap_or(AttemptError::NoResponse);
        FailedAttempt { transport: self.transport, to: self.to, error }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use core::net::IpAddr;

    use super::*;
    use crate::transport::tunnel::{self, TunnelError};

    fn attempt() -> Attempt {
        let ip = IpAddr::from([192, 0, 2, 1]);
        Attempt {
            id: 1,
            transport: InterfaceProtocol::HTTP,
            to: SocketAddr::new(ip, 8000),
            target: ServerTarget { site: Arc::default(), server_index: 0, ip },
            request_id: 1,
            request: Vec::new(),
            started_at: Duration::ZERO,
            times_sent: 1,
            next_timeout: Duration::ZERO,
            is_waiting: true,
            error: None,
            framer: Framer::new(),
            head: Some(ResponseHead::default()),
        }
    }

    #[test]
    fn endless_head_is_rejected() {
        let mut attempt = attempt();
        attempt.push(b"HTTP/1.1 200 OK\r\n").unwrap();
        for _ in 0..1000 {
            if let Err(error) = attempt.push(&b"a: b\r\n".repeat(100)) {
                attempt.fail(error);
            }
            assert!(attempt.head.as_ref().unwrap().len() < 2 * tunnel::MAX_RESPONSE_HEAD_LEN);
        }
        assert_eq!(attempt.error, Some(AttemptError::Tunnel(TunnelError::HeadTooLong)));
    }
}
