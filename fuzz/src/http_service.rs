//! HTTP service in memory, for targets that send requests.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{CallContext, Caller, HandleWrite, Registry, RegistrySettings};
use tendot_server::http::{HttpLimits, HttpServer, StreamServer};
use tendot_store::MemoryStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};
use tokio::runtime::{Builder, Runtime};

/// Token of the operator.
pub(crate) const TOKEN: &str = "operator-token-of-the-fuzz-targets";

/// Capacity of the pipe: requests and most responses fit.
const PIPE_BYTES: usize = 1 << 20;

/// Pause after each piece. The clock is simulated: it advances when the server waits for more input, and only then.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest simulated time of a conversation: longer than the timeouts of the server.
const TIMEOUT: Duration = Duration::from_secs(600);

/// HTTP service with a few records, which are not changed.
pub(crate) struct HttpService {
    runtime: Runtime,
    server: StreamServer,
    /// Number of connections, which is the client's address: limits per client do not connect one input with the next.
    connections: Cell<u32>,
}

thread_local! {
    static SERVICE: HttpService = HttpService::new();
}

/// Sends the pieces on a new connection, with pauses between them, and returns all responses.
///
/// Panics if the server does not end the connection, or fails.
pub(crate) fn exchange(pieces: &[&[u8]]) -> Vec<u8> {
    let received = SERVICE.with(|service| service.exchange(pieces));
    let failed = b"HTTP/1.1 500 ";
    let is_echo = || pieces.iter().any(|piece| contains(piece, b" 500 "));
    assert!(!contains(&received, failed) || is_echo(), "{}", String::from_utf8_lossy(&received));
    received
}

/// Whether bytes contain others.
pub(crate) fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Status of the first response; none if there is no response.
pub(crate) fn first_status(received: &[u8]) -> Option<u16> {
    let after = received.strip_prefix(b"HTTP/1.1 ").or(received.strip_prefix(b"HTTP/1.0 "))?;
    str::from_utf8(after.get(..3)?).ok()?.parse().ok()
}

impl HttpService {
    fn new() -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let registry = Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default()));
        runtime.block_on(create_records(&registry));
        let http = Arc::new(HttpServer::new(registry).operator_token(TOKEN));
        http.set_ready(true);
        let service = Self {
            runtime,
            server: StreamServer::new(http, HttpLimits::default()),
            connections: Cell::new(0),
        };
        service.create("agencies", &json!({"code": "A", "name": "Agency"}));
        let registrant = service.create("registrants", &json!({"agency": "A", "name": "Press"}));
        service.create("prefixes", &json!({"registrant": registrant["id"], "prefix": "10.70000"}));
        service
    }

    /// Creates an object of the registry.
    fn create(&self, path: &str, object: &Value) -> Value {
        let body = object.to_string();
        let head = format!(
            "POST /api/v1/{path} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let received = self.exchange(&[head.as_bytes(), body.as_bytes()]);
        let received = String::from_utf8_lossy(&received);
        assert_eq!(first_status(received.as_bytes()), Some(201), "{received}");
        let (_, created) = received.split_once("\r\n\r\n").expect("the end of the head");
        serde_json::from_str(created).expect("JSON")
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Vec<u8> {
        self.connections.set(self.connections.get().wrapping_add(1) & 0x00ff_ffff);
        let client = IpAddr::V4(Ipv4Addr::from(0x0b00_0000 | self.connections.get()));
        let (near, far) = duplex(PIPE_BYTES);
        let (mut reader, mut writer) = split(near);
        let mut received = Vec::new();
        let conversation = async {
            tokio::join!(
                self.server.serve(far, client),
                async {
                    for piece in pieces {
                        // The server may close the connection before it has read all.
                        if writer.write_all(piece).await.is_err() {
                            break;
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                    let _ = writer.shutdown().await;
                },
                async {
                    let _ = reader.read_to_end(&mut received).await;
                }
            );
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, conversation).await });
        assert!(ended.is_ok(), "the server does not end the connection");
        received
    }
}

/// Records of each kind of redirect.
async fn create_records(registry: &Registry) {
    let locations = r#"<locations><location id="0" href="https://a.example/" country="gb"/><location href="https://b.example/"/></locations>"#;
    let records = [
        ("10.5555/ONE", vec![HandleValue::new(1, "URL", "https://example.org/one")]),
        ("10.5555/MANY", vec![HandleValue::new(1, "10320/loc", locations)]),
        ("10.5555/ALIAS", vec![HandleValue::new(1, "HS_ALIAS", "10.5555/ONE")]),
        (
            "10.5555/TEXT",
            vec![HandleValue::new(1, "DESC", "text"), HandleValue::new(2, "EMAIL", "a@example.org")],
        ),
    ];
    let home = HandleWrite::Home { prefix: Handle::from("10.5555") };
    let create = |(name, values)| HandleWrite::Create {
        name: Handle::from(name),
        values,
        overwrite: false,
        keep_secrets: false,
        uuid_bytes: None,
        force: false,
    };
    for write in std::iter::once(home).chain(records.into_iter().map(create)) {
        let mut budget = Budget::PER_REQUEST;
        let call = CallContext::new(&Caller::Operator, 1_700_000_000_000, &mut budget);
        registry.write(&write, call).await.expect("a valid record");
    }
}
