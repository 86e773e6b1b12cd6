//! Behind nginx with the configuration files of `deploy/`: names arrive unchanged, client addresses are right, writes are not
//! retried.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tendot_proto::HandleValue;
use tendot_server::http::{HttpLimits, ProxyTrust};
use tendot_testing::http::{HttpRequest, HttpResponse, send_raw};
use tendot_testing::{free_port, ram_dir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

use crate::support::edits::put_edit;
use crate::support::http_server::{TOKEN, TestServer, bind, start};
use crate::support::proxies::Nginx;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ALLOWED_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Names that a proxy might normalize.
const NAMES: [&str; 23] = [
    "10.5555/PLAIN",
    "10.5555/a/b/c",
    "10.5555//two",
    "10.5555/two//three///four",
    "10.5555/end/",
    "10.5555/a/../b",
    "10.5555/a/./b",
    "10.5555/a/..",
    "10.5555/.",
    "10.5555/.hidden",
    "10.5555/a b",
    "10.5555/<b>\"'",
    "10.5555/a#b",
    "10.5555/a?b=c",
    "10.5555/a;b=c",
    "10.5555/a+b",
    "10.5555/100%",
    "10.5555/a%2Fb",
    "10.5555/a&b=c|d^e`f{g}[h]\\i",
    "10.5555/日本語-é-😀",
    "10.5555/(SICI)1097-4571(199601)47:1<1::AID-ASI1>1.0.TX;2-W",
    "10.5555/http://example.org/x",
    "10.5555/~user@host:80,x=y!$*",
];

/// A server behind nginx.
struct ProxiedServer {
    server: TestServer,
    _nginx: Nginx,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl ProxiedServer {
    fn start() -> Self {
        let server = start(HttpLimits::default(), None, |http| {
            http.proxy_trust(ProxyTrust {
                trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
                ..ProxyTrust::default()
            })
            .metrics_allow(vec![format!("{ALLOWED_CLIENT}/32").parse().unwrap()])
        });
        let put = |name: &str| {
            let url = HandleValue::new(1, "URL", format!("https://example.org/{}", name.len()));
            put_edit(name, vec![url])
        };
        server.commit(NAMES.iter().map(|name| put(name)).chain([put(&long_name())]).collect());
        let directory = ram_dir();
        let address = (LOOPBACK, free_port()).into();
        let dir = directory.path().display();
        let shipped = include_str!("../../../../deploy/nginx.conf");
        let replacements = [
            ("server 127.0.0.1:8080;", format!("server {};", server.address)),
            ("listen 8443 ", format!("listen {address} ")),
            ("/etc/ssl/tendot/", format!("{dir}/")),
        ];
        write_certificate(directory.path());
        let nginx = Nginx::start(directory.path(), address, shipped, &replacements);
        Self { server, _nginx: nginx, address, directory }
    }

    /// Sends a request to nginx over TLS, from a loopback address.
    fn request(&self, from: Ipv4Addr, method: &str, target: &str, headers: &str, body: &str) -> HttpResponse {
        let mut roots = RootCertStore::empty();
        let certificate = self.directory.path().join("certificate.pem");
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let request = request(method, target, headers).body(body).to_bytes();
        self.server.runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            let stream = socket.connect(self.address).await.unwrap();
            let name = ServerName::try_from("example.org").unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
            stream.write_all(&request).await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            HttpResponse::parse(&bytes)
        })
    }
}

/// A request with header lines.
fn request(method: &str, target: &str, headers: &str) -> HttpRequest {
    HttpRequest::new(method, target).header("Connection: close").headers(headers.lines())
}

fn write_certificate(directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["example.org".into()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(directory.join("certificate.pem"), certificate.pem()).unwrap();
}

fn long_name() -> String {
    format!("10.5555/{}", "é/-".repeat(498))
}

/// Percent-encodings of a name: everything, everything but slashes, the minimum, lower-case digits.
fn encodings(name: &str) -> Vec<String> {
    let all = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let literal_slashes = all.replace("%2F", "/").replace("%2E", ".").replace("%2D", "-");
    let replacements = [
        ('%', "%25"),
        (' ', "%20"),
        ('#', "%23"),
        ('?', "%3F"),
        ('<', "%3C"),
        ('>', "%3E"),
        ('"', "%22"),
        ('`', "%60"),
    ];
    let minimal =
        replacements.iter().fold(name.to_owned(), |text, (character, code)| text.replace(*character, code));
    let lower_case_digits = all.replace("%2F", "%2f").replace("%3C", "%3c");
    vec![all, literal_slashes, minimal, lower_case_digits]
}

/// The parts of a response that do not depend on nginx or the time.
fn forwarded_parts(response: &HttpResponse) -> (u16, Vec<String>, &[u8]) {
    let ignored =
        ["date", "server", "connection", "expires", "x-request-id", "transfer-encoding", "content-length"];
    let lines = response.head.lines().skip(1).filter(|line| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        !name.is_empty() && !ignored.contains(&&*name)
    });
    let mut lines: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    lines.sort();
    (response.status, lines, &response.body)
}

#[test]
fn names_arrive_unchanged() {
    let proxied = ProxiedServer::start();
    let long_name = long_name();
    assert!(long_name.len() >= 2_000, "{}", long_name.len());
    for name in NAMES.into_iter().chain([&*long_name]) {
        for encoding in encodings(name) {
            assert_eq!(percent_decode_str(&encoding).decode_utf8().unwrap(), name);
            for (path_prefix, status) in [("/", 302), ("/api/handles/", 200)] {
                let target = format!("{path_prefix}{encoding}");
                let direct = request("GET", &target, "").send(proxied.server.address);
                assert_eq!(direct.status, status, "{target}: {}", direct.head);
                if status == 302 {
                    let expected = format!("https://example.org/{}", name.len());
                    assert_eq!(direct.header("location"), Some(&*expected), "{target}");
                }
                let proxied_response = proxied.request(LOOPBACK, "GET", &target, "", "");
                assert_eq!(forwarded_parts(&proxied_response), forwarded_parts(&direct), "{target}");
            }
        }
    }
    // Error responses are equal, too.
    for (target, status) in [
        ("/10.5555/%zz?noredirect", 400),
        ("/10.9999/x", 404),
        ("/10.5555/PLAIN?a=%4", 400),
        ("/api/handles/10.9999/x%2Fy", 400),
    ] {
        let direct = request("GET", target, "").send(proxied.server.address);
        let proxied_response = proxied.request(LOOPBACK, "GET", target, "", "");
        assert_eq!(proxied_response.status, status, "{target}");
        // nginx itself rejects invalid percent-encoding in paths.
        if !target.contains("%zz") {
            assert_eq!(forwarded_parts(&proxied_response), forwarded_parts(&direct), "{target}");
        }
    }
}

#[test]
fn client_address_comes_from_the_proxy() {
    let proxied = ProxiedServer::start();
    let metrics = |from, headers: &str| proxied.request(from, "GET", "/metrics", headers, "").status;
    assert_eq!(metrics(ALLOWED_CLIENT, ""), 200);
    assert_eq!(metrics(OTHER_CLIENT, ""), 403);
    // A client behind the proxy does not count as loopback, even on this machine.
    assert_eq!(metrics(LOOPBACK, ""), 403);
    assert_eq!(metrics(OTHER_CLIENT, "X-Forwarded-For: 127.0.0.2"), 403);
    assert_eq!(metrics(OTHER_CLIENT, "Forwarded: for=127.0.0.2"), 403);
    assert_eq!(metrics(ALLOWED_CLIENT, "X-Forwarded-For: 192.0.2.1"), 200);
    let id = "X-Request-Id: mine";
    let response = proxied.request(OTHER_CLIENT, "GET", "/livez", id, "");
    assert!(
        response.header("x-request-id").is_some_and(|id| id.len() == 32),
        "the request id of nginx: {}",
        response.head
    );
}

#[test]
fn credentials_are_accepted_over_https() {
    let proxied = ProxiedServer::start();
    let body = r#"[{"index":1,"type":"URL","data":"https://example.org/new"}]"#;
    let token = format!("Authorization: Bearer {TOKEN}");
    let put =
        |headers: &str| proxied.request(OTHER_CLIENT, "PUT", "/api/handles/10.5555%2Fnew%2f", headers, body);
    assert_eq!(put("").status, 401);
    assert_eq!(put("Authorization: Bearer wrong").status, 401);
    let response = put(&token);
    assert_eq!(response.status, 201, "{}", String::from_utf8_lossy(&response.body));
    assert_eq!(proxied.request(OTHER_CLIENT, "GET", "/10.5555/new/", "", "").status, 302);
    // Forwarded headers of the client are ignored.
    let spoofed = format!("{token}\nX-Forwarded-Proto: http");
    assert_eq!(put(&spoofed).status, 200);
}

/// When servers fail after they have received a request, nginx retries reads at the others, but not writes.
#[test]
fn writes_are_not_retried() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let servers = [(); 3].map(|()| {
        let (socket, received) = (bind(), Arc::clone(&received));
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in socket.incoming().map_while(Result::ok) {
                let mut buffer = [0; 4_096];
                if stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                    let line = buffer.split(|byte| *byte == b'\r').next().unwrap_or_default();
                    received.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
                }
            }
        });
        address
    });
    let directory = ram_dir();
    let address = (LOOPBACK, free_port()).into();
    let shipped = include_str!("../../../../deploy/postgresql/nginx.conf");
    let mut replacements = vec![("listen 8080", format!("listen {address}"))];
    // No server is taken out of service.
    for (name, server) in ["server-1:8080", "server-2:8080", "server-3:8080"].into_iter().zip(servers) {
        replacements.push((name, server.to_string()));
    }
    replacements.push(("max_fails=2", "max_fails=0".into()));
    let _nginx = Nginx::start(directory.path(), address, shipped, &replacements);
    let bodies = ["\r\n", "Content-Length: 0\r\n\r\n", "Content-Length: 2\r\n\r\n{}"];
    for (method, attempts) in [("GET", 3), ("HEAD", 3), ("PUT", 1), ("DELETE", 1), ("POST", 1)] {
        for body in bodies {
            let line = format!("{method} /api/handles/10.5555%2Fa%2f%2e%2e//x%20y/../z?a=%41 HTTP/1.1");
            let response = send_raw(address, format!("{line}\r\nHost: a\r\nConnection: close\r\n{body}"));
            assert_eq!(response.status, 502, "{method}: {}", response.head);
            assert_eq!(std::mem::take(&mut *received.lock().unwrap()), vec![line; attempts], "{body:?}");
        }
    }
}
