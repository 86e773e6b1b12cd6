//! A service inside of the test, and a client that says exactly what it is told.

#![allow(dead_code, reason = "each file of tests uses its own part")]

#[path = "../../../tendot-registry/tests/store/mod.rs"]
pub(crate) mod store;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use store::Kept;
use tendot_proto::Value;
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, Listener, Listeners, Tls, listen};
use tendot_store::{Change, Edit, Expect, Store};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub(crate) struct Service<S = Kept> {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) http: Arc<Http<S>>,
    pub(crate) end: Option<oneshot::Sender<()>>,
    pub(crate) served: Option<tokio::task::JoinHandle<()>>,
}

/// `10.5555/ONE` leads to a page, and `10.5555/LARGE` is a record of many values.
pub(crate) fn start(
    limits: Limits,
    tls: Option<Arc<Tls>>,
    with: impl FnOnce(Http<Kept>) -> Http<Kept>,
) -> Service {
    let one = vec![Value::new(1, "URL", "https://example.org/one")];
    let large = (1..=2_000).map(|index| Value::new(index, "DESC", format!("{index:.>1000}"))).collect();
    let put = |name: &str, values| Edit::Put { name: name.into(), values, expect: Expect::Absent };
    let edits =
        vec![put("10.5555/ONE", one), put("10.5555/LARGE", large), Edit::Home { prefix: "10.5555".into() }];
    start_at(TcpListener::bind("127.0.0.1:0").unwrap(), edits, limits, tls, with)
}

/// A service with these records at this socket.
pub(crate) fn start_at(
    socket: TcpListener,
    edits: Vec<Edit>,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    with: impl FnOnce(Http<Kept>) -> Http<Kept>,
) -> Service {
    start_with(store::new(), socket, edits, limits, tls, with)
}

/// The same with a store of its own.
pub(crate) fn start_with<S: Store + 'static>(
    store: S,
    socket: TcpListener,
    edits: Vec<Edit>,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    with: impl FnOnce(Http<S>) -> Http<S>,
) -> Service<S> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let http = Http::new(Arc::new(Registry::new(store, Settings::default()))).operator_token(TOKEN);
    let http = Arc::new(with(http));
    http.set_ready(true);
    let (end, ended) = oneshot::channel::<()>();
    let (address, served) = runtime.block_on(async {
        http.registry().store().commit(Change { by: "test".into(), at: 0, edits }).await.unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = tokio::net::TcpListener::from_std(socket).unwrap();
        let address = socket.local_addr().unwrap();
        let listeners: Listeners = match tls {
            Some(tls) => vec![Listener::encrypted(socket, tls)].into(),
            None => socket.into(),
        };
        let http = Arc::clone(&http);
        let served = tokio::spawn(async move {
            let end = async { drop(ended.await) };
            listen(listeners, http, limits, end).await.unwrap();
        });
        (address, served)
    });
    Service { runtime, address, http, end: Some(end), served: Some(served) }
}

pub(crate) const TOKEN: &str = "the-operator-s-token";

pub(crate) fn plain() -> Service {
    start(Limits::default(), None, |http| http)
}

impl<S> Service<S> {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// All that comes until the connection is closed.
    pub(crate) fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // It may be closed before all was said.
        let _ = stream.write_all(bytes.as_ref());
        rest(&mut stream)
    }

    /// The answer to a request with these headers.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &str) -> Found {
        let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
        let said =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        let mut stream = self.connect();
        stream.write_all(said.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Found::of(&answer)
    }
}

/// What comes until the connection is closed, one way or another.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let (mut found, mut piece) = (Vec::new(), [0; 64 << 10]);
    while let Ok(read) = stream.read(&mut piece)
        && read > 0
    {
        found.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Found {
    pub(crate) fn of(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: answer[end..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
