//! TCP proxy between a store and its server that cuts, holds or refuses connections.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tendot_testing::wait_until_async;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// Direction of a stream of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Handling of the bytes after a cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CutMode {
    /// The bytes are lost.
    Both,
    /// The client's connection is closed at once; the server receives the rest of the sent bytes after the client
    /// has sent something on another connection.
    Late,
}

#[derive(Debug, Default)]
struct FaultPlan {
    /// The next connection on which this many bytes have passed is cut.
    cut: Option<(Direction, usize, CutMode)>,
    is_refusing: bool,
    /// A connection on which these bytes are sent is held from there on.
    hold_pattern: Option<&'static [u8]>,
    /// Bytes by direction.
    passed: [usize; 2],
    /// Cut connections; each reference is valid until the server has closed its side.
    cut_connections: Vec<Weak<()>>,
}

/// TCP proxy that cuts connections after a number of bytes.
#[derive(Clone)]
pub(crate) struct ChaosProxy {
    pub(crate) port: u16,
    plan: Arc<Mutex<FaultPlan>>,
}

impl ChaosProxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), plan: Arc::default() };
        let (plan, sent) = (Arc::clone(&proxy.plan), Arc::new(Notify::new()));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if plan.lock().unwrap().is_refusing {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                for socket in [&client, &server] {
                    socket.set_nodelay(true).unwrap();
                }
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (cut, is_cut) = watch::channel(false);
                let server_side = Arc::new(());
                let relay = Relay {
                    plan: Arc::clone(&plan),
                    sent: Arc::clone(&sent),
                    cut,
                    is_cut,
                    server_side: Arc::downgrade(&server_side),
                };
                tokio::spawn(relay.clone().run(Direction::ToServer, from_client, to_server));
                tokio::spawn(async move {
                    relay.run(Direction::ToClient, from_server, to_client).await;
                    drop(server_side);
                });
            }
        });
        proxy
    }

    pub(crate) fn cut_after(&self, direction: Direction, bytes: usize, mode: CutMode) {
        self.plan.lock().unwrap().cut = Some((direction, bytes, mode));
    }

    /// Whether the planned cut has happened.
    pub(crate) fn was_cut(&self) -> bool {
        self.plan.lock().unwrap().cut.is_none()
    }

    /// Waits until the server has closed all connections that were cut: it has processed everything that it received on them.
    pub(crate) async fn wait_until_closed(&self) {
        let is_closed = async || {
            let connections = &mut self.plan.lock().unwrap().cut_connections;
            connections.retain(|connection| connection.strong_count() > 0);
            connections.is_empty()
        };
        wait_until_async("the server has closed the cut connections", is_closed).await;
    }

    pub(crate) fn set_refusing(&self, is_refusing: bool) {
        self.plan.lock().unwrap().is_refusing = is_refusing;
    }

    /// Holds connections from these bytes on; those that are already held stay held.
    pub(crate) fn hold_at(&self, hold_pattern: Option<&'static [u8]>) {
        self.plan.lock().unwrap().hold_pattern = hold_pattern;
    }

    /// How many bytes have passed since the last call: to the server, and to the client.
    pub(crate) fn take_byte_counts(&self) -> [usize; 2] {
        std::mem::take(&mut self.plan.lock().unwrap().passed)
    }
}

/// One direction of one connection.
#[derive(Clone)]
struct Relay {
    plan: Arc<Mutex<FaultPlan>>,
    /// Notified when a client has sent something on any connection.
    sent: Arc<Notify>,
    cut: watch::Sender<bool>,
    is_cut: watch::Receiver<bool>,
    /// Valid until the server has closed its side.
    server_side: Weak<()>,
}

impl Relay {
    async fn run(mut self, direction: Direction, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read.unwrap_or(0),
                _ = self.is_cut.changed() => return self.close(direction, from, to).await,
            };
            if read == 0 {
                let _ = to.shutdown().await;
                return;
            }
            if self.matches_hold_pattern(&buffer[..read]) {
                while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                return;
            }
            let (passing, mode) = self.apply_plan(direction, read);
            let is_written = to.write_all(&buffer[..passing]).await.is_ok();
            match mode {
                Some(CutMode::Late) => {
                    return self.deliver_late(from, to, buffer[passing..read].to_vec()).await;
                }
                Some(CutMode::Both) => {
                    let _ = self.cut.send(true);
                    return self.close(direction, from, to).await;
                }
                None if !is_written => return self.close(direction, from, to).await,
                None => {}
            }
        }
    }

    fn matches_hold_pattern(&self, bytes: &[u8]) -> bool {
        let hold_pattern = self.plan.lock().unwrap().hold_pattern;
        hold_pattern.is_some_and(|hold_pattern| {
            bytes.windows(hold_pattern.len()).any(|window| window == hold_pattern)
        })
    }

    /// How many of the bytes that were read pass, and whether the connection is cut then.
    fn apply_plan(&self, direction: Direction, read: usize) -> (usize, Option<CutMode>) {
        let mut plan = self.plan.lock().unwrap();
        plan.passed[direction as usize] += read;
        if direction == Direction::ToServer {
            self.sent.notify_waiters();
        }
        match &mut plan.cut {
            Some((planned, remaining, mode)) if *planned == direction => {
                let passing = read.min(*remaining);
                *remaining -= passing;
                let mode = (*remaining == 0).then_some(*mode);
                if mode.is_some() {
                    plan.cut = None;
                    plan.cut_connections.push(Weak::clone(&self.server_side));
                }
                (passing, mode)
            }
            _ => (read, None),
        }
    }

    /// Closes the client's socket and shuts down the stream to the server; the other direction then waits for the server's end.
    async fn close(self, direction: Direction, mut from: OwnedReadHalf, to: OwnedWriteHalf) {
        drop(to);
        if direction == Direction::ToClient {
            let mut buffer = [0; 1 << 12];
            while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        }
    }

    async fn deliver_late(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut rest: Vec<u8>) {
        // The bytes that the client has already sent; it sends no more until it gets a response.
        let _ = tokio::time::timeout(Duration::from_millis(20), from.read_to_end(&mut rest)).await;
        let sent = self.sent.notified();
        let _ = self.cut.send(true);
        drop(from);
        sent.await;
        let _ = to.write_all(&rest).await;
    }
}
