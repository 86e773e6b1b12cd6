//! One connection: message by message, each answered before the next is looked at.

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

use super::listen::NativeLimits;
use super::{NativeServer, tls};

/// Bytes a second that a peer at least has to send or take, beside the time that it has in any case.
const SLOWEST: u64 = 1 << 10;

/// How long, and how many bytes, what still comes in is thrown away at the end, so that the peer can read the last answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;

/// How long the header of a message is waited for that is too long to be read.
const OVERSIZED_HEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that asks nothing goes after this when others have no room.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// What agreeing on TLS costs us, in microseconds.
const TLS_HANDSHAKE_COST_MICROS: u32 = 1_000;

/// Whether unread input remains when a connection ends.
enum ConnectionEnd {
    AllRead,
    Unread,
}

/// One native TCP connection.
pub(super) struct NativeConnection {
    pub(super) native: Arc<NativeServer>,
    pub(super) limits: NativeLimits,
    pub(super) client: IpAddr,
    /// Whether the end was asked for.
    pub(super) closed: watch::Receiver<bool>,
    /// Whether there is no room for others.
    pub(super) crowded: watch::Receiver<bool>,
}

impl NativeConnection {
    /// Answers what comes, after a handshake if it begins with one.
    pub(super) async fn run(mut self, mut stream: TcpStream) {
        let mut framer = Framer::new();
        let time = self.limits.message_time;
        let came =
            self.wait_first_byte(timeout(time, read_into_framer(&mut stream, &mut framer)), Ok(0)).await;
        if !has_data(came) {
            return;
        }
        if framer.remaining().first() != Some(&tls::TLS_HANDSHAKE_BYTE) {
            match self.serve_messages(&mut stream, framer).await {
                // With nothing unread, the last answer is safe.
                Ok(ConnectionEnd::AllRead) => {}
                Ok(ConnectionEnd::Unread) => lingering_close(&mut stream).await,
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

    /// All that is said, after what has come already, until one side has nothing more to say.
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
                        return Ok(ConnectionEnd::Unread);
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
                    return Ok(ConnectionEnd::Unread);
                }
            };
            let stays = wants_keep_alive(message);
            let mut reply = self.native.handle_message(message, Transport::Tcp, self.client).await;
            loop {
                match &reply.message {
                    Some(answer) => self.write(stream, answer).await?,
                    None => return Ok(ConnectionEnd::Unread),
                }
                let Some(listing) = reply.more.take() else { break };
                match self.native.next_list_message(listing).await {
                    Some(next) => reply = next,
                    None => return Ok(ConnectionEnd::Unread),
                }
            }
            if !stays || *self.closed.borrow() {
                return Ok(if framer.has_partial_message() {
                    ConnectionEnd::Unread
                } else {
                    ConnectionEnd::AllRead
                });
            }
            waits = self.limits.idle_time;
        }
    }

    /// Reads more of a message, or the first of the next; whether there was any.
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
        let begun = Instant::now();
        let mut came = 0;
        // In pieces that may come one by one, but not without end.
        while framer.bytes_needed() > 0 {
            let end = begun + self.limits.message_time + Duration::from_secs(came / SLOWEST);
            match timeout_at(end, read_into_framer(stream, framer)).await {
                Ok(Ok(0)) => return Ok(false),
                Ok(read) => came += read? as u64,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(true)
    }

    /// What comes first of a message; `none` if nothing does in time, or others need the room more, or the end comes.
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

    /// Answers a message that ended too early.
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

/// Gives what has come to the framer. The room for it is there only while it is read: most connections wait.
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

/// Whether the client wants to say more after this message.
fn wants_keep_alive(message: &[u8]) -> bool {
    let header = message.get(limits::ENVELOPE_LEN..).map(MessageHeader::from_bytes);
    header.is_some_and(|read| read.is_ok_and(|(header, _)| header.flags.has(OpFlags::KEEP_CONNECTION)))
}

/// Ready when others have had no room for a while.
async fn wait_until_crowded(crowded: &mut watch::Receiver<bool>) {
    sleep(CROWDED_IDLE_TIMEOUT).await;
    let _ = crowded.wait_for(|crowded| *crowded).await;
}

/// Says that nothing more is sent, and waits a little for the peer to see it: closed at once, with bytes that nobody read,
/// the connection would be torn down, and the last answer with it.
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
