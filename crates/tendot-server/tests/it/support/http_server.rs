//! HTTP server in the test process, with its own runtime; it stops on drop.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use tendot_proto::HandleValue;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{
    HttpLimits, HttpListener, HttpListeners, HttpServer, ProxyTrust, ServerCertificate, serve,
};
use tendot_store::{AnyStore, ChangeSet, Edit, MemoryStore, Precondition, Store as _};
use tendot_testing::WAIT_TIMEOUT;
use tendot_testing::http::{HttpRequest, HttpResponse, read_to_close};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The operator's token.
pub(crate) const TOKEN: &str = "the-operator-s-token";

/// A running HTTP server.
pub(crate) struct TestServer {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) http: Arc<HttpServer>,
    /// The store of the server, for changes without the checks of the registry.
    pub(crate) store: Arc<AnyStore>,
    /// Drains and stops the server when it is dropped or used.
    pub(crate) shutdown: Option<oneshot::Sender<()>>,
    /// Completes when the server has drained.
    pub(crate) serving: Option<JoinHandle<()>>,
}

/// A socket on a free port of 127.0.0.1.
pub(crate) fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Sets whether credentials over plain HTTP are accepted from loopback.
pub(crate) fn allow_plain_loopback(http: HttpServer, allow_plain_loopback: bool) -> HttpServer {
    http.proxy_trust(ProxyTrust { allow_plain_loopback, ..ProxyTrust::default() })
}

/// A server in memory: `10.5555/ONE` redirects to a page, and `10.5555/LARGE` is a record of 2 MB.
pub(crate) fn start(
    limits: HttpLimits,
    tls: Option<Arc<ServerCertificate>>,
    configure: impl FnOnce(HttpServer) -> HttpServer,
) -> TestServer {
    let one = vec![HandleValue::new(1, "URL", "https://example.org/one")];
    let large = (1..=2_000).map(|index| HandleValue::new(index, "DESC", format!("{index:.>1000}"))).collect();
    let put =
        |name: &str, values| Edit::Put { name: name.into(), values, precondition: Precondition::Absent };
    let edits =
        vec![put("10.5555/ONE", one), put("10.5555/LARGE", large), Edit::Home { prefix: "10.5555".into() }];
    start_at(bind(), edits, limits, tls, configure)
}

/// Like [`start`], with default settings.
pub(crate) fn start_default() -> TestServer {
    start(HttpLimits::default(), None, |http| http)
}

/// A server in memory at this socket, with these records.
pub(crate) fn start_at(
    socket: TcpListener,
    edits: Vec<Edit>,
    limits: HttpLimits,
    tls: Option<Arc<ServerCertificate>>,
    configure: impl FnOnce(HttpServer) -> HttpServer,
) -> TestServer {
    start_over(MemoryStore::new().into(), socket, edits, limits, tls, configure)
}

/// A server over a store at this socket, with these records added.
pub(crate) fn start_over(
    store: AnyStore,
    socket: TcpListener,
    edits: Vec<Edit>,
    limits: HttpLimits,
    tls: Option<Arc<ServerCertificate>>,
    configure: impl FnOnce(HttpServer) -> HttpServer,
) -> TestServer {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = Arc::new(store);
    let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
    let http = HttpServer::new(Arc::new(registry)).operator_token(TOKEN);
    let http = Arc::new(configure(http));
    http.set_ready(true);
    let (shutdown, is_shut_down) = oneshot::channel::<()>();
    let (address, serving) = runtime.block_on(async {
        store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = tokio::net::TcpListener::from_std(socket).unwrap();
        let address = socket.local_addr().unwrap();
        let listeners: HttpListeners = match tls {
            Some(tls) => vec![HttpListener::tls(socket, tls)].into(),
            None => socket.into(),
        };
        let http = Arc::clone(&http);
        let serving = tokio::spawn(async move {
            let end = async { drop(is_shut_down.await) };
            serve(listeners, http, limits, end).await.unwrap();
        });
        (address, serving)
    });
    TestServer { runtime, address, http, store, shutdown: Some(shutdown), serving: Some(serving) }
}

impl TestServer {
    /// A raw TCP connection to the server.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        stream
    }

    /// Sends bytes and reads until the connection is closed; the server may close it before it has read everything.
    pub(crate) fn send_raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes.as_ref());
        read_text(&stream)
    }

    /// The response to a GET request.
    pub(crate) fn get(&self, target: &str) -> HttpResponse {
        self.request("GET", target, "")
    }

    /// The response to a request with these headers, one a line.
    pub(crate) fn request(&self, method: &str, target: &str, headers: &str) -> HttpResponse {
        HttpRequest::new(method, target).headers(headers.lines()).send(self.address)
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let response = self.get("/metrics");
        let metrics = response.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    }

    /// Commits edits to the store without the checks of the registry.
    pub(crate) fn commit(&self, edits: Vec<Edit>) {
        let change = ChangeSet { author: "test".into(), timestamp_ms: 0, edits };
        self.runtime.block_on(self.store.commit(change)).unwrap();
    }
}

/// Reads until the connection is closed, as text.
pub(crate) fn read_text(stream: &TcpStream) -> String {
    String::from_utf8_lossy(&read_to_close(stream)).into_owned()
}
