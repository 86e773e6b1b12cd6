use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::record::Transport;
use tendot_proto::tunnel::{self, TunnelError};
use tendot_proto::{FrameError, Framer, Handle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::transport::{Stream, open};

/// One request and the messages of its answer, over TCP or inside HTTP, with TLS or without.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    framer: Framer,
    /// The head of an HTTP response as far as it has come; none when it has been read, or if there is none.
    head: Option<Vec<u8>>,
}

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionFailure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error("no answer within {} s", Connection::WAIT.as_secs())]
    Time,
    #[error(transparent)]
    TooLong(#[from] FrameError),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

impl Connection {
    /// How long a message is waited for, from its first byte to its last: a change may have to wait for others.
    const WAIT: Duration = Duration::from_secs(60);

    pub(super) async fn open(
        transport: Transport,
        to: SocketAddr,
        domain: Option<&str>,
        key: &[u8],
    ) -> io::Result<Self> {
        Ok(Self { stream: open(transport, to, domain, key).await?, framer: Framer::new(), head: None })
    }

    /// Sends a request as it is.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(), ConnectionFailure> {
        let sent = async {
            self.stream.write_all(request).await?;
            self.stream.flush().await
        };
        Ok(timeout(Self::WAIT, sent).await.map_err(|_| ConnectionFailure::Time)??)
    }

    /// Sends a request inside of HTTP.
    pub(super) async fn post(
        &mut self,
        host: &str,
        path: &str,
        handle: Handle<'_>,
        request: &[u8],
    ) -> Result<(), ConnectionFailure> {
        let head = tunnel::request_head(host, path, handle, request.len());
        self.head = Some(Vec::new());
        self.send(&[head.as_bytes(), request].concat()).await
    }

    /// The next message of the answer.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, ConnectionFailure> {
        timeout(Self::WAIT, self.read()).await.map_err(|_| ConnectionFailure::Time)?
    }

    async fn read(&mut self) -> Result<Vec<u8>, ConnectionFailure> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            if let Some(message) = self.framer.next_message()? {
                return Ok(message.to_vec());
            }
            let length = self.stream.read(&mut buffer).await?;
            if length == 0 {
                return Err(ConnectionFailure::Closed);
            }
            self.push(buffer.get(..length).unwrap_or_default())?;
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ConnectionFailure> {
        let Some(head) = &mut self.head else {
            self.framer.push(bytes);
            return Ok(());
        };
        head.extend_from_slice(bytes);
        let Some(at) = tunnel::response_body(head)? else { return Ok(()) };
        // A line break before the message may come in two parts.
        if let Some(body) = head.get(at..).filter(|body| body.len() >= 2) {
            self.framer.push(tunnel::message_in(body));
            self.head = None;
        }
        Ok(())
    }
}
