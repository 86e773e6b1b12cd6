//! Connection for one request over TCP or HTTP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::record::InterfaceProtocol;
use tendot_proto::tunnel::{self, ResponseHead, TunnelError};
use tendot_proto::{FrameError, Framer, Handle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::native::stream::{ByteStream, READ_BUFFER_BYTES, connect_stream};

/// Connection for one request and its response messages: TCP or HTTP, with or without TLS.
pub(super) struct AdminConnection {
    stream: Box<dyn ByteStream>,
    framer: Framer,
    /// Received part of the head of an HTTP response; `None` after the head, or without HTTP.
    http_head: Option<ResponseHead>,
}

/// Error of sending a request or receiving a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("connection closed by the server")]
    Closed,
    #[error("no response within {} s", AdminConnection::MESSAGE_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

impl AdminConnection {
    /// Timeout of a whole message; long, because a change may have to wait for others.
    const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

    /// Connects over `transport`; see [`connect_stream`].
    pub(super) async fn open(
        transport: InterfaceProtocol,
        to: SocketAddr,
        domain: Option<&str>,
        key: &[u8],
    ) -> io::Result<Self> {
        Ok(Self {
            stream: connect_stream(transport, to, domain, key).await?,
            framer: Framer::new(),
            http_head: None,
        })
    }

    /// Sends bytes as they are: a message, or an HTTP request.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(), AdminConnectionError> {
        let sent = async {
            self.stream.write_all(request).await?;
            self.stream.flush().await
        };
        Ok(timeout(Self::MESSAGE_TIMEOUT, sent).await.map_err(|_| AdminConnectionError::Timeout)??)
    }

    /// Sends a request as the body of an HTTP request.
    pub(super) async fn send_http(
        &mut self,
        host: &str,
        path: &str,
        handle: Handle<'_>,
        request: &[u8],
    ) -> Result<(), AdminConnectionError> {
        let head = tunnel::request_head(host, path, handle, request.len());
        self.http_head = Some(ResponseHead::default());
        self.send(&[head.as_bytes(), request].concat()).await
    }

    /// Receives the next message of the response.
    pub(super) async fn receive(&mut self) -> Result<Vec<u8>, AdminConnectionError> {
        timeout(Self::MESSAGE_TIMEOUT, self.read_message())
            .await
            .map_err(|_| AdminConnectionError::Timeout)?
    }

    async fn read_message(&mut self) -> Result<Vec<u8>, AdminConnectionError> {
        let mut buffer = vec![0; READ_BUFFER_BYTES];
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

    /// Passes received bytes to the framer, without the head of an HTTP response.
    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), AdminConnectionError> {
        let Some(head) = &mut self.http_head else {
            self.framer.push(bytes);
            return Ok(());
        };
        if let Some(body) = head.push(bytes)? {
            self.framer.push(body);
            self.http_head = None;
        }
        Ok(())
    }
}
