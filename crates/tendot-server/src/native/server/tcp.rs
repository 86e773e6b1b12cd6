//! One TCP connection: messages are answered one by one.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;

use tendot_proto::endpoint::Transport;
use tendot_proto::{Framer, MessageHeader, OpFlags, limits};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::native::NativeServer;
use crate::native::server::listener::NativeLimits;
use crate::native::server::tls;

/// Minimum transfer rate of a peer in bytes per second, beyond its base timeout.
const SLOWEST: u64 = 1 << 10;

/// Lingering close: time and bytes for which further input is discarded, so that the peer can read the last response.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;

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
    pub(crate) native: Arc<NativeServer>,
    pub(crate) limits: NativeLimits,
    pub(crate) client: IpAddr,
    /// Whether shutdown was requested.
    pub(crate) closed: watch::Receiver<bool>,
    /// Whether the server is at capacity.
    pub(crate) crowded: watch::Receiver<bool>,
}

impl NativeConnection {
    /// Serves the connection, after a TLS handshake if it begins with one.
    pub(crate) async fn run(mut self, mut stream: TcpStream) {
        let mut framer = Framer::new();
        let time = self.limits.message_time;
        let came =
            self.wait_first_byte(timeout(time, read_into_framer(&mut stream, &mut framer)), Ok(0)).await;
        if !has_data(came) {
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
        let Ok(Ok(mut stream)) = timeout(self.limits.message_time, acceptor.accept(stream)).await else {
            return tracing::debug!(client = %self.client, "TLS was not agreed on");
        };
        match self.serve_messages(&mut stream, Framer::new()).await {
            Ok(_) => lingering_close(&mut stream).await,
            Err(error) => self.log_broken(&error),
        }
    }

    fn log_broken(&self, error: &io::Error) {
        tracing::debug!(client = %self.client, %error, "a connection broke");
    }

    /// Serves messages, after bytes already received, until one side closes.
    async fn serve_messages<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut T,
        mut framer: Framer,
    ) -> io::Result<ConnectionEnd> {
        let mut waits = self.limits.message_time;
        loop {
            let message = match framer.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => {
                    if !self.read(stream, &mut framer, waits).await? {
                        self.reject_truncated(stream, framer).await?;
                        return Ok(ConnectionEnd::InputUnread);
                    }
                    continue;
                }
                Err(error) => {
                    if error.header.is_none()
                        && timeout(OVERSIZED_HEADER_TIMEOUT, read_into_framer(stream, &mut framer))
                            .await
                            .is_ok_and(has_data)
                    {
                        continue;
                    }
                    let refusal = self.native.endpoint.reject_frame(&error, self.native.now());
                    self.write(stream, refusal.response().unwrap_or_default()).await?;
                    return Ok(ConnectionEnd::InputUnread);
                }
            };
            let stays = wants_keep_alive(message);
            let mut reply = self.native.handle_message(message, Transport::Tcp, self.client).await;
            loop {
                match &reply.message {
                    Some(answer) => self.write(stream, answer).await?,
                    None => return Ok(ConnectionEnd::InputUnread),
                }
                let Some(listing) = reply.more.take() else { break };
                match self.native.next_list_message(listing).await {
                    Some(next) => reply = next,
                    None => return Ok(ConnectionEnd::InputUnread),
                }
            }
            if !stays || *self.closed.borrow() {
                return Ok(if framer.has_partial_message() {
                    ConnectionEnd::InputUnread
                } else {
                    ConnectionEnd::Clean
                });
            }
            waits = self.limits.idle_time;
        }
    }

    /// Reads more of a message, or the beginning of the next; returns whether there was input.
    async fn read<T: AsyncRead + Unpin>(
        &mut self,
        stream: &mut T,
        framer: &mut Framer,
        waits: Duration,
    ) -> io::Result<bool> {
        if !framer.has_partial_message() {
            return Ok(
                self.wait_first_byte(timeout(waits, read_into_framer(stream, framer)), Ok(0)).await? > 0
            );
        }
        let started = Instant::now();
        let mut came = 0;
        // Fragments may arrive separately, but not without end.
        while framer.bytes_needed() > 0 {
            let end = started + self.limits.message_time + Duration::from_secs(came / SLOWEST);
            match timeout_at(end, read_into_framer(stream, framer)).await {
                Ok(Ok(0)) => return Ok(false),
                Ok(read) => came += read? as u64,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(true)
    }

    /// First bytes of a message; `None` on timeout, at capacity or at shutdown.
    async fn wait_first_byte<T>(
        &mut self,
        coming: impl Future<Output = Result<io::Result<T>, Elapsed>>,
        none: io::Result<T>,
    ) -> io::Result<T> {
        tokio::select! {
            came = coming => came.unwrap_or(none),
            _ = self.closed.wait_for(|closed| *closed) => none,
            () = wait_until_crowded(&mut self.crowded) => none,
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
            Err(refusal) => self.write(stream, refusal.response().unwrap_or_default()).await,
            Ok(_) => Ok(()),
        }
    }

    async fn write<T: AsyncWrite + Unpin>(&self, stream: &mut T, answer: &[u8]) -> io::Result<()> {
        let time = self.limits.write_time + Duration::from_secs(answer.len() as u64 / SLOWEST);
        let written = timeout(time, async {
            stream.write_all(answer).await?;
            stream.flush().await
        });
        written.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads into the framer. The buffer exists only during the read: most connections are idle.
async fn read_into_framer<T: AsyncRead + Unpin>(stream: &mut T, framer: &mut Framer) -> io::Result<usize> {
    poll_fn(|context| {
        let mut room = [0; 8 << 10];
        let mut buffer = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        framer.push(buffer.filled());
        Ok(buffer.filled().len()).into()
    })
    .await
}

fn has_data(read: io::Result<usize>) -> bool {
    read.is_ok_and(|read| read > 0)
}

/// Whether the client wants to keep the connection open.
fn wants_keep_alive(message: &[u8]) -> bool {
    let header = message.get(limits::ENVELOPE_LEN..).map(MessageHeader::from_bytes);
    header.is_some_and(|read| read.is_ok_and(|(header, _)| header.flags.contains(OpFlags::KEEP_CONNECTION)))
}

/// Completes when the server has been at capacity for a while.
async fn wait_until_crowded(crowded: &mut watch::Receiver<bool>) {
    sleep(CROWDED_IDLE_TIMEOUT).await;
    let _ = crowded.wait_for(|crowded| *crowded).await;
}

/// Closes the sending side, and lingers: closing the socket with unread input would reset the connection and lose the last
/// response.
async fn lingering_close<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) {
    let waited = timeout(LINGER, async {
        stream.shutdown().await?;
        let (mut framer, mut thrown_away) = (Framer::new(), 0);
        while thrown_away < LINGER_BYTES {
            match read_into_framer(stream, &mut framer).await? {
                0 => break,
                read => thrown_away += read,
            }
            framer = Framer::new();
        }
        Ok::<_, io::Error>(())
    });
    let _ = waited.await;
}
