//! Behind nginx, with the file of `deploy/`: names arrive as they were asked for, and clients are who they are.

mod server;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use server::{Found, Service, TOKEN, start};
use tendot_proto::Value;
use tendot_server::http::{Limits, Trust};
use tendot_store::{Change, Edit, Expect, Store as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const FRIEND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Names that a proxy could change on their way.
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

/// It ends when it is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nginx {
    /// With a shipped file, with other ports and paths in their places.
    fn start(directory: &Path, address: SocketAddr, shipped: &str, changes: &[(&str, String)]) -> Self {
        let mut shipped = shipped.to_owned();
        for (from, to) in changes {
            assert!(shipped.contains(from), "{from} is not in the file");
            shipped = shipped.replace(from, to);
        }
        fs::write(directory.join("tendot.conf"), shipped).unwrap();
        let folder = directory.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
            .collect();
        let around = format!(
            "daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nmaster_process off;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}include {folder}/tendot.conf;\n}}\n"
        );
        fs::write(directory.join("nginx.conf"), around).unwrap();
        let nginx = Command::new("nginx")
            .arg("-p")
            .arg(directory)
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .stderr(Stdio::inherit())
            .spawn()
            .expect("`cargo xtask test` installs nginx-light");
        let nginx = Self(nginx);
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let log = fs::read_to_string(directory.join("error.log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(10), "{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }
}

/// A service and nginx in front of it.
struct Proxied {
    service: Service,
    _nginx: Nginx,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Proxied {
    fn start() -> Self {
        let service = start(Limits::default(), None, |http| {
            http.trust(Trust { proxies: vec!["127.0.0.1/32".parse().unwrap()], ..Trust::default() })
                .metrics_for(vec![format!("{FRIEND}/32").parse().unwrap()])
        });
        let put = |name: &str| {
            let url = Value::new(1, "URL", format!("https://example.org/{}", name.len()));
            Edit::Put { name: name.into(), values: vec![url], expect: Expect::Absent }
        };
        let edits = NAMES.iter().map(|name| put(name)).chain([put(&long())]).collect();
        let store = service.http.registry().store();
        service.runtime.block_on(store.commit(Change { by: "test".into(), at: 0, edits })).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let address = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
        let folder = directory.path().display();
        let shipped = include_str!("../../../deploy/nginx.conf");
        let changes = [
            ("server 127.0.0.1:8080;", format!("server {};", service.address)),
            ("listen 8443 ", format!("listen {address} ")),
            ("/etc/ssl/tendot/", format!("{folder}/")),
        ];
        certify(directory.path());
        let nginx = Nginx::start(directory.path(), address, shipped, &changes);
        Self { service, _nginx: nginx, address, directory }
    }

    /// Asks nginx from an address of this machine, over TLS.
    fn ask(&self, from: Ipv4Addr, method: &str, target: &str, headers: &str, body: &str) -> Found {
        let mut roots = RootCertStore::empty();
        let certificate = self.directory.path().join("certificate.pem");
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let said = request(method, target, headers, body);
        self.service.runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            let stream = socket.connect(self.address).await.unwrap();
            let name = ServerName::try_from("example.org").unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            Found::of(&answer)
        })
    }
}

fn request(method: &str, target: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

fn certify(directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["example.org".into()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(directory.join("certificate.pem"), certificate.pem()).unwrap();
}

fn long() -> String {
    format!("10.5555/{}", "é/-".repeat(498))
}

/// The ways in which clients write a name: all that is possible encoded, slashes left, and as little as may be.
fn forms(name: &str) -> Vec<String> {
    let all = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let slashes = all.replace("%2F", "/").replace("%2E", ".").replace("%2D", "-");
    let needed = [
        ('%', "%25"),
        (' ', "%20"),
        ('#', "%23"),
        ('?', "%3F"),
        ('<', "%3C"),
        ('>', "%3E"),
        ('"', "%22"),
        ('`', "%60"),
    ];
    let little = needed.iter().fold(name.to_owned(), |text, (sign, code)| text.replace(*sign, code));
    let lower = all.replace("%2F", "%2f").replace("%3C", "%3c");
    vec![all, slashes, little, lower]
}

/// What of an answer does not come from nginx itself, nor from the moment.
fn kept(found: &Found) -> (u16, Vec<String>, &[u8]) {
    let others =
        ["date", "server", "connection", "expires", "x-request-id", "transfer-encoding", "content-length"];
    let lines = found.head.lines().skip(1).filter(|line| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        !name.is_empty() && !others.contains(&&*name)
    });
    let mut lines: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    lines.sort();
    (found.status, lines, &found.body)
}

#[test]
fn names_arrive_as_they_were_asked_for() {
    let proxied = Proxied::start();
    let long = long();
    assert!(long.len() >= 2_000, "{}", long.len());
    for name in NAMES.into_iter().chain([&*long]) {
        for form in forms(name) {
            assert_eq!(percent_decode_str(&form).decode_utf8().unwrap(), name);
            for (start, status) in [("/", 302), ("/api/handles/", 200)] {
                let target = format!("{start}{form}");
                let direct = Found::of(proxied.service.say(request("GET", &target, "", "")).as_bytes());
                assert_eq!(direct.status, status, "{target}: {}", direct.head);
                if status == 302 {
                    let expected = format!("https://example.org/{}", name.len());
                    assert_eq!(direct.header("location"), Some(&*expected), "{target}");
                }
                let behind = proxied.ask(HERE, "GET", &target, "", "");
                assert_eq!(kept(&behind), kept(&direct), "{target}");
            }
        }
    }
    // What is refused is refused with the same words.
    for target in
        ["/10.5555/%zz?noredirect", "/10.9999/x", "/10.5555/PLAIN?a=%4", "/api/handles/10.9999/x%2Fy"]
    {
        let direct = Found::of(proxied.service.say(request("GET", target, "", "")).as_bytes());
        let behind = proxied.ask(HERE, "GET", target, "", "");
        assert_eq!(behind.status, 400, "{target}");
        // A path that is not well encoded does not come so far.
        if !target.contains("%zz") {
            assert_eq!(kept(&behind), kept(&direct), "{target}");
        }
    }
}

#[test]
fn clients_are_known_by_the_proxy_s_word_alone() {
    let proxied = Proxied::start();
    let metrics = |from, headers: &str| proxied.ask(from, "GET", "/metrics", headers, "").status;
    assert_eq!(metrics(FRIEND, ""), 200);
    assert_eq!(metrics(STRANGER, ""), 403);
    // Not even from this machine: who asks by a proxy is not here.
    assert_eq!(metrics(HERE, ""), 403);
    assert_eq!(metrics(STRANGER, "X-Forwarded-For: 127.0.0.2\r\n"), 403);
    assert_eq!(metrics(STRANGER, "Forwarded: for=127.0.0.2\r\n"), 403);
    assert_eq!(metrics(FRIEND, "X-Forwarded-For: 192.0.2.1\r\n"), 200);
    let id = "X-Request-Id: mine\r\n";
    let found = proxied.ask(STRANGER, "GET", "/livez", id, "");
    assert!(found.header("x-request-id").is_some_and(|id| id.len() == 32), "nginx's own: {}", found.head);
}

#[test]
fn credentials_are_taken_over_https_at_the_proxy() {
    let proxied = Proxied::start();
    let body = r#"[{"index":1,"type":"URL","data":"https://example.org/new"}]"#;
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let put = |headers: &str| proxied.ask(STRANGER, "PUT", "/api/handles/10.5555%2Fnew%2f", headers, body);
    assert_eq!(put("").status, 401);
    assert_eq!(put("Authorization: Bearer wrong\r\n").status, 401);
    let found = put(&token);
    assert_eq!(found.status, 201, "{}", String::from_utf8_lossy(&found.body));
    assert_eq!(proxied.ask(STRANGER, "GET", "/10.5555/new/", "", "").status, 302);
    // Whatever the client says of itself.
    let spoofed = format!("{token}X-Forwarded-Proto: http\r\n");
    assert_eq!(put(&spoofed).status, 200);
}

/// What is sent to servers that take a request and then are gone: a question goes to all of them, and a change to one.
#[test]
fn changes_are_sent_once() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let servers = [(); 3].map(|()| {
        let (socket, arrived) = (TcpListener::bind((HERE, 0)).unwrap(), Arc::clone(&arrived));
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in socket.incoming().map_while(Result::ok) {
                let mut read = [0; 4_096];
                if stream.read(&mut read).is_ok_and(|length| length > 0) {
                    let line = read.split(|byte| *byte == b'\r').next().unwrap_or_default();
                    arrived.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
                }
            }
        });
        address
    });
    let directory = tempfile::tempdir().unwrap();
    let address = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
    let shipped = include_str!("../../../deploy/postgresql/nginx.conf");
    let mut changes = vec![("listen 8080", format!("listen {address}"))];
    // Nobody is left out, so that all could be asked.
    for (name, server) in ["server-1:8080", "server-2:8080", "server-3:8080"].into_iter().zip(servers) {
        changes.push((name, server.to_string()));
    }
    changes.push(("max_fails=2", "max_fails=0".into()));
    let _nginx = Nginx::start(directory.path(), address, shipped, &changes);
    let bodies = ["\r\n", "Content-Length: 0\r\n\r\n", "Content-Length: 2\r\n\r\n{}"];
    for (method, times) in [("GET", 3), ("HEAD", 3), ("PUT", 1), ("DELETE", 1), ("POST", 1)] {
        for body in bodies {
            let line = format!("{method} /api/handles/10.5555%2Fa%2f%2e%2e//x%20y/../z?a=%41 HTTP/1.1");
            let mut stream = TcpStream::connect(address).unwrap();
            let said = format!("{line}\r\nHost: a\r\nConnection: close\r\n{body}");
            stream.write_all(said.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 502 "), "{method}: {answer}");
            assert_eq!(std::mem::take(&mut *arrived.lock().unwrap()), vec![line; times], "{body:?}");
        }
    }
}
