//! Accept loop, connection limits, and draining at shutdown.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use prometheus_client::encoding::DescriptorEncoder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection::client_limit::{ConnectionLimiter, ConnectionPermit};
use crate::metrics::{encode_counter, encode_gauge};

/// Delay after a failed accept, such as for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// At shutdown, time between the last accepted connection and closing idle ones: a client may have sent a request just before.
const IDLE_CLOSE_DELAY: Duration = Duration::from_secs(1);

/// Accepts connections within the limits, and drains them at shutdown. Its sockets share the limits.
#[derive(Debug)]
pub(crate) struct ConnectionAcceptor {
    permits: Arc<Semaphore>,
    max_connections: u32,
    client_limiter: Arc<ConnectionLimiter>,
    metrics: Arc<ConnectionMetrics>,
    at_capacity: watch::Sender<bool>,
    /// Same as in `phase`; cheaper to read, for each request.
    is_draining: AtomicBool,
    phase: watch::Sender<ServingPhase>,
}

/// Phase of serving, from start to shutdown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
enum ServingPhase {
    /// Connections are accepted.
    Accepting,
    /// No connections are accepted; open ones are closed after their next response.
    Draining,
    /// Idle connections are closed, too.
    ClosingIdle,
}

/// Signal to close idle connections at shutdown.
#[derive(Debug)]
pub(crate) struct CloseSignal(watch::Receiver<ServingPhase>);

impl CloseSignal {
    /// Completes when idle connections are to be closed.
    pub(crate) async fn wait(&mut self) {
        self.wait_for(ServingPhase::ClosingIdle).await;
    }

    async fn wait_for(&mut self, phase: ServingPhase) {
        // Without a sender, the server has ended.
        let _ = self.0.wait_for(|current| *current >= phase).await;
    }
}

impl ConnectionAcceptor {
    /// Allows `max_connections` in total, and `max_per_client` per IPv4 address or IPv6 /64 network.
    pub(crate) fn new(
        max_connections: usize,
        max_per_client: usize,
        metrics: Arc<ConnectionMetrics>,
    ) -> Self {
        let max_connections = max_connections.min(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(max_connections)),
            max_connections: u32::try_from(max_connections).unwrap_or(u32::MAX),
            client_limiter: ConnectionLimiter::new(max_per_client),
            metrics,
            at_capacity: watch::channel(false).0,
            is_draining: AtomicBool::new(false),
            phase: watch::channel(ServingPhase::Accepting).0,
        }
    }

    /// Whether shutdown was requested: connections are closed after their next response.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Signal to close idle connections at shutdown.
    pub(crate) fn close_signal(&self) -> CloseSignal {
        CloseSignal(self.phase.subscribe())
    }

    /// Whether connections wait because the total limit is reached or file descriptors have run out.
    pub(crate) fn at_capacity(&self) -> watch::Receiver<bool> {
        self.at_capacity.subscribe()
    }

    /// Accepts connections until draining begins, and passes each to `spawn`, unless its client has too many.
    pub(crate) async fn accept_loop(
        &self,
        socket: &TcpListener,
        is_exempt: impl Fn(IpAddr) -> bool,
        spawn: impl Fn(TcpStream, IpAddr, OpenConnection),
    ) {
        let admit = |permit, stream: TcpStream, client: IpAddr| {
            let client = client.to_canonical();
            if let Some(open) = self.admit(permit, client, is_exempt(client)) {
                // Responses are small: send them without delay.
                let _ = stream.set_nodelay(true);
                spawn(stream, client, open);
            }
        };
        let (mut phase, mut error_logged) = (self.close_signal(), false);
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(socket) => accepted,
                () = phase.wait_for(ServingPhase::Draining) => break,
            };
            match accepted {
                Ok((permit, stream, client)) => {
                    if std::mem::replace(&mut error_logged, false) {
                        self.at_capacity.send_replace(false);
                    }
                    admit(permit, stream, client);
                }
                // The client closed the connection before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !error_logged {
                        tracing::error!(%error, "accept failed; retrying");
                    }
                    error_logged = true;
                    // File descriptors have run out, most likely: idle connections make room.
                    self.at_capacity.send_replace(true);
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        // Accept connections still in the backlog, which closing the socket would reset; let the runtime poll it once more.
        sleep(Duration::from_millis(1)).await;
        while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned()
            && let Some((stream, peer)) = next_in_backlog(socket).await
        {
            admit(permit, stream, peer.ip());
        }
    }

    /// Waits for a permit, then for a connection. At capacity, idle connections are notified.
    async fn accept(&self, socket: &TcpListener) -> io::Result<(OwnedSemaphorePermit, TcpStream, IpAddr)> {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.at_capacity.send_replace(true);
                let permit = Arc::clone(&self.permits).acquire_owned().await;
                self.at_capacity.send_replace(false);
                permit.map_err(io::Error::other)?
            }
        };
        let (stream, peer) = socket.accept().await?;
        Ok((permit, stream, peer.ip()))
    }

    /// Counts a connection, unless its client has too many.
    fn admit(&self, permit: OwnedSemaphorePermit, client: IpAddr, is_exempt: bool) -> Option<OpenConnection> {
        let client_permit = if is_exempt {
            None
        } else if let Some(permit) = self.client_limiter.acquire(client) {
            Some(permit)
        } else {
            self.metrics.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%client, "connection rejected: too many from this client");
            return None;
        };
        self.metrics.accepted.fetch_add(1, Ordering::Relaxed);
        self.metrics.open.fetch_add(1, Ordering::Relaxed);
        Some(OpenConnection {
            metrics: Arc::clone(&self.metrics),
            _client_permit: client_permit,
            _permit: permit,
        })
    }

    /// Stops the accept loops, closes idle connections, and waits until all are closed, at most for `drain_timeout`.
    pub(crate) async fn drain(&self, mut accept_loops: JoinSet<()>, drain_timeout: Duration) {
        let deadline = Instant::now() + drain_timeout;
        self.is_draining.store(true, Ordering::Relaxed);
        self.phase.send_replace(ServingPhase::Draining);
        while accept_loops.join_next().await.is_some() {}
        let all_closed = || self.permits.acquire_many(self.max_connections);
        if timeout(IDLE_CLOSE_DELAY.min(drain_timeout), all_closed()).await.is_err() {
            self.phase.send_replace(ServingPhase::ClosingIdle);
            let _ = timeout_at(deadline, all_closed()).await;
        }
    }
}

/// Next connection that is already in the backlog of a socket.
async fn next_in_backlog(socket: &TcpListener) -> Option<(TcpStream, std::net::SocketAddr)> {
    poll_fn(|context| match socket.poll_accept(context) {
        Poll::Ready(accepted) => Poll::Ready(accepted.ok()),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Accepted connection; it counts towards the limits and metrics until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    metrics: Arc<ConnectionMetrics>,
    _client_permit: Option<ConnectionPermit>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Metrics of connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    open: AtomicI64,
    accepted: AtomicU64,
    /// Connections closed because their client had too many.
    rejected: AtomicU64,
}

impl ConnectionMetrics {
    /// Encodes the metrics as OpenMetrics; `prefix` is the common part of their names.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, prefix: &str) -> fmt::Result {
        let open = self.open.load(Ordering::Relaxed) as f64;
        encode_gauge(encoder, prefix, "Open connections.", open)?;
        for (name, help, number) in [
            ("accepted", "Accepted connections.", &self.accepted),
            ("rejected", "Connections rejected by the per-client limit.", &self.rejected),
        ] {
            let value = number.load(Ordering::Relaxed) as f64;
            encode_counter(encoder, &format!("{prefix}_{name}"), help, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn limits_and_drains_connections() {
        let metrics = Arc::<ConnectionMetrics>::default();
        let acceptor = Arc::new(ConnectionAcceptor::new(10, 1, Arc::clone(&metrics)));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (accepted, mut connections) = mpsc::unbounded_channel();
        let mut accept_loops = JoinSet::new();
        let accepting = Arc::clone(&acceptor);
        accept_loops.spawn(async move {
            let spawn = |stream, _, open| drop(accepted.send((stream, open)));
            accepting.accept_loop(&socket, |_| false, spawn).await;
        });
        let read = |metric: &AtomicU64| metric.load(Ordering::Relaxed);

        let _first = TcpStream::connect(address).await.unwrap();
        let first = connections.recv().await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        assert_eq!(second.read(&mut [0]).await.unwrap_or_default(), 0, "one connection per client");
        assert_eq!((read(&metrics.accepted), read(&metrics.rejected)), (1, 1));
        drop(first);
        assert_eq!(metrics.open.load(Ordering::Relaxed), 0);

        let _third = TcpStream::connect(address).await.unwrap();
        let (_stream, open) = connections.recv().await.unwrap();
        let mut close_signal = acceptor.close_signal();
        let draining = Arc::clone(&acceptor);
        let drained =
            tokio::spawn(async move { draining.drain(accept_loops, Duration::from_secs(3_600)).await });
        close_signal.wait().await;
        assert!(acceptor.is_draining() && !drained.is_finished());
        assert!(TcpStream::connect(address).await.is_err());
        drop(open);
        drained.await.unwrap();
    }
}
