//! One native TCP connection: messages are answered one by one.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;

use tendot_proto::Framer;
use tendot_proto::endpoint::Transport;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection::{CloseSignal, ConnectionAcceptor, lingering_close, transfer_timeout};
use crate::native::classified_message::ClassifiedMessage;
use crate::native::server::listener::NativeLimits;
use crate::native::server::tls;
use crate::native::{MessageClient, NativeServer};

/// Timeout for the header of a message that is too long to be read.
const OVERSIZED_HEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// Idle timeout of a connection while the server is at capacity.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// CPU cost of a TLS handshake in microseconds.
const TLS_HANDSHAKE_COST_MICROS: u32 = 1_000;

/// Whether unread input remains when a connection ends.
enum ConnectionEnd {
    Clean,
    InputUnread,
}

/// One native TCP connection.
pub(crate) struct NativeConnection {
    native: Arc<NativeServer>,
    acceptor: Arc<ConnectionAcceptor>,
    limits: NativeLimits,
    client: MessageClient,
    close_signal: CloseSignal,
    /// Whether the server is at capacity.
    at_capacity: watch::Receiver<bool>,
}

impl NativeConnection {
    pub(crate) fn new(
        native: Arc<NativeServer>,
        acceptor: Arc<ConnectionAcceptor>,
        limits: NativeLimits,
        client: IpAddr,
    ) -> Self {
        let client = MessageClient::direct(client);
        let (close_signal, at_capacity) = (acceptor.close_signal(), acceptor.at_capacity());
        Self { native, acceptor, limits, client, close_signal, at_capacity }
    }

    /// Serves the connection, after a TLS handshake if it begins with one.
    pub(crate) async fn run(mut self, mut stream: TcpStream) {
        let mut framer = Framer::new();
        let received = self.read_first_bytes(&mut stream, &mut framer, self.limits.message_timeout).await;
        if !received.is_ok_and(|received| received > 0) {
            return;
        }
        if framer.remaining().first() != Some(&tls::TLS_HANDSHAKE_BYTE) {
            match self.serve_messages(&mut stream, framer).await {
                // Without unread input, closing does not lose the last response.
                Ok(ConnectionEnd::Clean) => {}
                Ok(ConnectionEnd::InputUnread) => lingering_close(&mut stream).await,
                Err(error) => self.log_broken(&error),
            }
            return;
        }
        if self.native.is_over_budget(self.client) {
            return;
        }
        self.native.charge(self.client, TLS_HANDSHAKE_COST_MICROS);
        let acceptor = self.native.site.tls().clone();
        let (read, write) = stream.into_split();
        let stream = tokio::io::join(io::Cursor::new(framer.into_remaining()).chain(read), write);
        let Ok(Ok(mut stream)) = timeout(self.limits.message_timeout, acceptor.accept(stream)).await else {
            return tracing::debug!(client = %self.client, "TLS handshake failed");
        };
        match self.serve_messages(&mut stream, Framer::new()).await {
            Ok(_) => lingering_close(&mut stream).await,
            Err(error) => self.log_broken(&error),
        }
    }

    fn log_broken(&self, error: &io::Error) {
        tracing::debug!(client = %self.client, %error, "connection error");
    }

    /// Serves messages, after bytes already received, until one side closes.
    async fn serve_messages<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut T,
        mut framer: Framer,
    ) -> io::Result<ConnectionEnd> {
        let mut wait_timeout = self.limits.message_timeout;
        loop {
            let message = match framer.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => {
                    if !self.read(stream, &mut framer, wait_timeout).await? {
                        self.reject_truncated(stream, framer).await?;
                        return Ok(ConnectionEnd::InputUnread);
                    }
                    continue;
                }
                Err(error) => {
                    if error.header.is_none()
                        && timeout(OVERSIZED_HEADER_TIMEOUT, read_into_framer(stream, &mut framer))
                            .await
                            .is_ok_and(|read| read.is_ok_and(|read| read > 0))
                    {
                        continue;
                    }
                    let rejection = self.native.endpoint.reject_frame(&error, self.native.now());
                    self.write(stream, rejection.response().unwrap_or_default()).await?;
                    return Ok(ConnectionEnd::InputUnread);
                }
            };
            if let Some(address) = self.client.address {
                self.native.amplification.mark_verified(address, std::time::Instant::now());
            }
            let message = ClassifiedMessage::new(message);
            let mut reply = self.native.handle_message(&message, Transport::Tcp, self.client).await;
            let keep_alive = reply.keep_alive;
            loop {
                match &reply.message {
                    Some(message) => self.write(stream, message).await?,
                    None => return Ok(ConnectionEnd::InputUnread),
                }
                let Some(continuation) = reply.continuation.take() else { break };
                match self.native.next_list_message(continuation).await {
                    Some(next) => reply = next,
                    None => return Ok(ConnectionEnd::InputUnread),
                }
            }
            if !keep_alive || self.acceptor.is_draining() {
                return Ok(if framer.has_partial_message() {
                    ConnectionEnd::InputUnread
                } else {
                    ConnectionEnd::Clean
                });
            }
            wait_timeout = self.limits.idle_timeout;
        }
    }

    /// Reads more of a message, or the beginning of the next; returns whether there was input.
    async fn read<T: AsyncRead + Unpin>(
        &mut self,
        stream: &mut T,
        framer: &mut Framer,
        wait_timeout: Duration,
    ) -> io::Result<bool> {
        if !framer.has_partial_message() {
            return Ok(self.read_first_bytes(stream, framer, wait_timeout).await? > 0);
        }
        let started = Instant::now();
        let mut received = 0;
        // Fragments may arrive separately, but not without end.
        while framer.bytes_needed() > 0 {
            let deadline = started + transfer_timeout(self.limits.message_timeout, received);
            match timeout_at(deadline, read_into_framer(stream, framer)).await {
                Ok(Ok(0)) => return Ok(false),
                Ok(read) => received += read? as u64,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(true)
    }

    /// Reads the first bytes of a message; none on timeout, at capacity or at shutdown.
    async fn read_first_bytes<T: AsyncRead + Unpin>(
        &mut self,
        stream: &mut T,
        framer: &mut Framer,
        wait_timeout: Duration,
    ) -> io::Result<usize> {
        tokio::select! {
            // A request that has arrived is answered.
            biased;
            received = timeout(wait_timeout, read_into_framer(stream, framer)) => received.unwrap_or(Ok(0)),
            () = self.close_signal.wait() => Ok(0),
            () = wait_until_crowded(&mut self.at_capacity) => Ok(0),
        }
    }

    /// Replies to a truncated message.
    async fn reject_truncated<T: AsyncWrite + Unpin>(
        &self,
        stream: &mut T,
        framer: Framer,
    ) -> io::Result<()> {
        let rest = framer.into_remaining();
        match self.native.endpoint.decode_request(&rest, Transport::Tcp, self.native.now()) {
            Err(rejection) => self.write(stream, rejection.response().unwrap_or_default()).await,
            Ok(_) => Ok(()),
        }
    }

    async fn write<T: AsyncWrite + Unpin>(&self, stream: &mut T, message: &[u8]) -> io::Result<()> {
        let time = transfer_timeout(self.limits.write_timeout, message.len() as u64);
        let written = timeout(time, async {
            stream.write_all(message).await?;
            stream.flush().await
        });
        written.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads into the framer. The buffer exists only during the read: most connections are idle.
async fn read_into_framer<T: AsyncRead + Unpin>(stream: &mut T, framer: &mut Framer) -> io::Result<usize> {
    poll_fn(|context| {
        let mut bytes = [0; 8 << 10];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        framer.push(buffer.filled());
        Ok(buffer.filled().len()).into()
    })
    .await
}

/// Completes when the server has been at capacity for a while.
async fn wait_until_crowded(at_capacity: &mut watch::Receiver<bool>) {
    sleep(CROWDED_IDLE_TIMEOUT).await;
    let _ = at_capacity.wait_for(|at_capacity| *at_capacity).await;
}
