//! HTTP server in the test process, with its own runtime; it stops on drop.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use tendot_proto::HandleValue;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{
    HttpLimits, HttpListener, HttpListeners, HttpServer, ProxyTrust, ServerCertificate, serve,
};
use tendot_store::{AnyStore, Edit, MemoryStore};
use tendot_testing::WAIT_TIMEOUT;
use tendot_testing::http::{HttpRequest, HttpResponse, read_to_close};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::edits::{self, home_edit, put_edit};

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
pub(crate) fn trust_loopback(http: HttpServer, trust_loopback: bool) -> HttpServer {
    http.proxy_trust(ProxyTrust { trust_loopback, ..ProxyTrust::default() })
}

/// A server in memory: `10.5555/ONE` redirects to a page, and `10.5555/LARGE` is a record of 2 MB.
pub(crate) fn start(
    limits: HttpLimits,
    tls: Option<Arc<ServerCertificate>>,
    configure: impl FnOnce(HttpServer) -> HttpServer,
) -> TestServer {
    let one = vec![HandleValue::new(1, "URL", "https://example.org/one")];
    let large = (1..=2_000).map(|index| HandleValue::new(index, "DESC", format!("{index:.>1000}"))).collect();
    let edits = vec![put_edit("10.5555/ONE", one), put_edit("10.5555/LARGE", large), home_edit("10.5555")];
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
    let store = Arc::new(store);
    let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default()));
    let http = configure(HttpServer::new(registry).operator_token(TOKEN));
    start_http(http, store, socket, edits, limits, tls)
}

/// Starts an HTTP server over this store at this socket, with these records added.
pub(crate) fn start_http(
    http: HttpServer,
    store: Arc<AnyStore>,
    socket: TcpListener,
    edits: Vec<Edit>,
    limits: HttpLimits,
    tls: Option<Arc<ServerCertificate>>,
) -> TestServer {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let http = Arc::new(http);
    http.set_ready(true);
    let (shutdown, is_shut_down) = oneshot::channel::<()>();
    let (address, serving) = runtime.block_on(async {
        edits::commit(&store, edits).await;
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
        let metrics = self.get("/metrics");
        metrics.metric(name).unwrap_or_else(|| panic!("{name}: {}", metrics.text()))
    }

    /// Commits edits to the store without the checks of the registry.
    pub(crate) fn commit(&self, edits: Vec<Edit>) {
        self.runtime.block_on(edits::commit(&self.store, edits));
    }
}

/// Reads until the connection is closed, as text.
pub(crate) fn read_text(stream: &TcpStream) -> String {
    String::from_utf8_lossy(&read_to_close(stream)).into_owned()
}
