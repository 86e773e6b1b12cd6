//! Stands between a store and its server, and cuts a connection after so many bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Where the bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// What happens when it is time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CutMode {
    /// Both sides are closed.
    Both,
    /// The client is told at once; the server hears the rest of what was sent a while later.
    Late,
}

#[derive(Debug, Default)]
struct FaultPlan {
    /// The next connection on which so many bytes have passed is cut.
    cut: Option<(Direction, usize, CutMode)>,
    is_refusing: bool,
    /// Whatever has this in it does not pass, nor does what comes after it.
    held: Option<&'static [u8]>,
    passed: [usize; 2],
}

#[derive(Clone)]
pub(crate) struct ChaosProxy {
    pub(crate) port: u16,
    plan: Arc<Mutex<FaultPlan>>,
}

impl ChaosProxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), plan: Arc::default() };
        let plan = Arc::clone(&proxy.plan);
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
                let (cut, is_cut) = watch::channel(None);
                let pump = Relay { plan: Arc::clone(&plan), cut, is_cut };
                tokio::spawn(pump.clone().run(Direction::ToServer, from_client, to_server));
                tokio::spawn(pump.run(Direction::ToClient, from_server, to_client));
            }
        });
        proxy
    }

    pub(crate) fn cut_after(&self, direction: Direction, bytes: usize, cut: CutMode) {
        self.plan.lock().unwrap().cut = Some((direction, bytes, cut));
    }

    /// Whether it has been cut.
    pub(crate) fn was_cut(&self) -> bool {
        self.plan.lock().unwrap().cut.is_none()
    }

    pub(crate) fn set_refusing(&self, is_refusing: bool) {
        self.plan.lock().unwrap().is_refusing = is_refusing;
    }

    pub(crate) fn hold_at(&self, held: Option<&'static [u8]>) {
        self.plan.lock().unwrap().held = held;
    }

    /// How many bytes have passed since this was last asked: to the server, and to the client.
    pub(crate) fn take_byte_counts(&self) -> [usize; 2] {
        std::mem::take(&mut self.plan.lock().unwrap().passed)
    }
}

#[derive(Clone)]
struct Relay {
    plan: Arc<Mutex<FaultPlan>>,
    cut: watch::Sender<Option<CutMode>>,
    is_cut: watch::Receiver<Option<CutMode>>,
}

impl Relay {
    async fn run(mut self, direction: Direction, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read.unwrap_or(0),
                _ = self.is_cut.changed() => {
                    if *self.is_cut.borrow() == Some(CutMode::Late) {
                        drop(to);
                        // The server may say what it wants.
                        while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                    }
                    return;
                }
            };
            if read == 0 {
                let _ = to.shutdown().await;
                return;
            }
            if self.is_held(&buffer[..read]) {
                while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                return;
            }
            let (passes, cut) = self.plan(direction, read);
            if to.write_all(&buffer[..passes]).await.is_err() {
                return;
            }
            let Some(cut) = cut else { continue };
            if cut == CutMode::Late {
                self.deliver_late(from, to, buffer[passes..read].to_vec()).await;
            } else {
                let _ = self.cut.send(Some(cut));
            }
            return;
        }
    }

    fn is_held(&self, bytes: &[u8]) -> bool {
        let held = self.plan.lock().unwrap().held;
        held.is_some_and(|held| bytes.windows(held.len()).any(|window| window == held))
    }

    /// How many of these bytes pass, and what happens then.
    fn plan(&self, direction: Direction, read: usize) -> (usize, Option<CutMode>) {
        let mut plan = self.plan.lock().unwrap();
        plan.passed[direction as usize] += read;
        match &mut plan.cut {
            Some((planned, left, cut)) if *planned == direction => {
                let passes = read.min(*left);
                *left -= passes;
                let cut = (*left == 0).then_some(*cut);
                if cut.is_some() {
                    plan.cut = None;
                }
                (passes, cut)
            }
            _ => (read, None),
        }
    }

    async fn deliver_late(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut rest: Vec<u8>) {
        let _ = tokio::time::timeout(Duration::from_millis(20), from.read_to_end(&mut rest)).await;
        let _ = self.cut.send(Some(CutMode::Late));
        drop(from);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _ = to.write_all(&rest).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
