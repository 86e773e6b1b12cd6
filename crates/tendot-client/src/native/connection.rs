use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::record::InterfaceProtocol;
use tendot_proto::tunnel::{self, TunnelError};
use tendot_proto::{FrameError, Framer, Handle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::transport::{ByteStream, connect_stream};

/// Connection for one request and its response messages: TCP or HTTP, with or without TLS.
pub(super) struct AdminConnection {
    stream: Box<dyn ByteStream>,
    framer: Framer,
    /// The head of an HTTP response as far as it has come; none when it has been read, or if there is none.
    head: Option<Vec<u8>>,
}

/// Error of sending a request or receiving a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error("no answer within {} s", AdminConnection::MESSAGE_TIMEOUT.as_secs())]
    Time,
    #[error(transparent)]
    TooLong(#[from] FrameError),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

impl AdminConnection {
    /// How long a message is waited for, from its first byte to its last: a change may have to wait for others.
    const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

    pub(super) async fn open(
        transport: InterfaceProtocol,
        to: SocketAddr,
        domain: Option<&str>,
        key: &[u8],
    ) -> io::Result<Self> {
        Ok(Self {
            stream: connect_stream(transport, to, domain, key).await?,
            framer: Framer::new(),
            head: None,
        })
    }

    /// Sends a request as it is.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(), AdminConnectionError> {
        let sent = async {
            self.stream.write_all(request).await?;
            self.stream.flush().await
        };
        Ok(timeout(Self::MESSAGE_TIMEOUT, sent).await.map_err(|_| AdminConnectionError::Time)??)
    }

    /// Sends a request inside of HTTP.
    pub(super) async fn send_http(
        &mut self,
        host: &str,
        path: &str,
        handle: Handle<'_>,
        request: &[u8],
    ) -> Result<(), AdminConnectionError> {
        let head = tunnel::request_head(host, path, handle, request.len());
        self.head = Some(Vec::new());
        self.send(&[head.as_bytes(), request].concat()).await
    }

    /// The next message of the answer.
    pub(super) async fn receive(&mut self) -> Result<Vec<u8>, AdminConnectionError> {
        timeout(Self::MESSAGE_TIMEOUT, self.read_message()).await.map_err(|_| AdminConnectionError::Time)?
    }

    async fn read_message(&mut self) -> Result<Vec<u8>, AdminConnectionError> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            if let Some(message) = self.framer.next_message()? {
                return Ok(message.to_vec());
            }
            let length = self.stream.read(&mut buffer).await?;
            if length == 0 {
                return Err(AdminConnectionError::Closed);
            }
            self.push_bytes(buffer.get(..length).unwrap_or_default())?;
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), AdminConnectionError> {
        let Some(head) = &mut self.head else {
            self.framer.push(bytes);
            return Ok(());
        };
        head.extend_from_slice(bytes);
        let Some(at) = tunnel::find_response_body(head)? else { return Ok(()) };
        // A line break before the message may come in two parts.
        if let Some(body) = head.get(at..).filter(|body| body.len() >= 2) {
            self.framer.push(tunnel::strip_leading_newline(body));
            self.head = None;
        }
        Ok(())
    }
}
