//! TLS over real connections: certificates are reloaded, HTTP/2 is negotiated, world-readable keys are rejected.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tendot_client::{CacheSettings, HttpUpstream};
use tendot_server::http::{HttpLimits, ServerCertificate, TlsError, UpstreamClient};
use tendot_testing::http::HttpResponse;
use tendot_testing::{WAIT_TIMEOUT, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::http_server::{TOKEN, TestServer, read_text, start, trust_loopback};

/// A self-signed certificate for `localhost` and its key.
pub(crate) struct CertificateFiles {
    directory: tempfile::TempDir,
}

impl CertificateFiles {
    pub(crate) fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.write_new(2030);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces certificate and key by new ones.
    fn write_new(&self, year: i32) {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        self.replace("key", &key.serialize_pem());
        self.replace("certificate", &certificate.pem());
    }

    fn replace(&self, name: &str, text: &str) {
        let temporary = self.path("new");
        fs::write(&temporary, text).unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    pub(crate) fn load(&self) -> Result<ServerCertificate, TlsError> {
        ServerCertificate::load(self.path("certificate"), self.path("key"))
    }
}

/// A man in the middle cannot impersonate the upstream.
#[test]
fn attack_c6_upstream_with_untrusted_certificate() {
    let upstream =
        start(HttpLimits::default(), Some(Arc::new(CertificateFiles::new().load().unwrap())), |http| http);
    let base = format!("https://localhost:{}", upstream.address.port());
    let upstream = UpstreamClient::Http(Box::new(HttpUpstream::new(&base).unwrap()));
    let server = start(HttpLimits::default(), None, |http| http.upstream(upstream, CacheSettings::default()));
    let response = server.get("/api/handles/10.7777/ONE");
    let text = String::from_utf8_lossy(&response.body).into_owned();
    assert!(response.status == 500 && text.contains(&format!("{base} is unreachable")), "{text}");
}

/// Sends a request over TLS that trusts one certificate; returns the ALPN protocol and the response.
fn request(
    server: &TestServer,
    trusted: &Path,
    protocol: &[u8],
    text: &str,
) -> std::io::Result<(Option<Vec<u8>>, Vec<u8>)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    server.runtime.block_on(async {
        let stream = TcpStream::connect(server.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        stream.write_all(text.as_bytes()).await?;
        let mut response = vec![0; 64 << 10];
        let read = stream.read(&mut response).await?;
        response.truncate(read);
        Ok((alpn, response))
    })
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[test]
fn certificates_are_reloaded() {
    let files = CertificateFiles::new();
    let tls = Arc::new(files.load().unwrap());
    assert_eq!(tls.not_after(), Some(1_893_456_000));
    let server = start(HttpLimits::default(), Some(Arc::clone(&tls)), |http| http);
    let is_trusted = |trusted: &str| request(&server, &files.path(trusted), b"http/1.1", LIVEZ).is_ok();
    assert!(is_trusted("certificate"));
    fs::copy(files.path("certificate"), files.path("old")).unwrap();

    files.write_new(2031);
    wait_until("the new certificate is used", || is_trusted("certificate"));
    assert!(!is_trusted("old"));
    assert_eq!(tls.not_after(), Some(1_924_992_000));
}

/// A certificate that is malformed or does not match its key is rejected, and the old one stays in use.
#[test]
fn invalid_certificates_are_not_used() {
    let other = CertificateFiles::new();
    let mismatch = fs::read_to_string(other.path("certificate")).unwrap();
    let servers = ["-----BEGIN CERTIFICATE-----\nbroken", &*mismatch].map(|certificate| {
        let files = CertificateFiles::new();
        let tls = Arc::new(files.load().unwrap());
        let server = start(HttpLimits::default(), Some(Arc::clone(&tls)), |http| http);
        fs::copy(files.path("certificate"), files.path("old")).unwrap();
        files.replace("certificate", certificate);
        (files, tls, server)
    });
    // The files are checked every two seconds, and there is no event for a rejected file.
    std::thread::sleep(Duration::from_secs(3));
    let is_trusted = |number: usize, trusted: &str| {
        let (files, _, server) = &servers[number];
        request(server, &files.path(trusted), b"http/1.1", LIVEZ).is_ok()
    };
    assert!(is_trusted(0, "old") && is_trusted(1, "old") && !is_trusted(1, "certificate"));
    assert!(matches!(servers[0].1.reload(), Err(TlsError::InvalidPem { .. })));
    assert!(matches!(servers[1].1.reload(), Err(TlsError::KeyMismatch { .. })));
}

#[test]
fn http2_is_negotiated() {
    let files = CertificateFiles::new();
    let server = start(HttpLimits::default(), Some(Arc::new(files.load().unwrap())), |http| http);
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (alpn, response) = request(&server, &files.path("certificate"), b"h2", preface).unwrap();
    assert_eq!(alpn.as_deref(), Some(&b"h2"[..]));
    // The response begins with SETTINGS.
    assert_eq!(response[3], 4);
}

#[test]
fn credentials_are_accepted_over_tls() {
    let files = CertificateFiles::new();
    let tls = Some(Arc::new(files.load().unwrap()));
    let server = start(HttpLimits::default(), tls, |http| trust_loopback(http, false));
    let put = |token: &str| {
        let body = r#"[{"index":1,"type":"URL","data":"https://example.org/"}]"#;
        let text = format!(
            "PUT /api/handles/10.5555/TLS HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        HttpResponse::parse(&request(&server, &files.path("certificate"), b"http/1.1", &text).unwrap().1)
            .status
    };
    assert_eq!(put("wrong"), 401);
    assert_eq!(put(TOKEN), 201);
}

#[test]
fn clients_without_tls_are_disconnected() {
    let files = CertificateFiles::new();
    let limits = HttpLimits { header_timeout: Duration::from_millis(200), ..HttpLimits::default() };
    let server = start(limits, Some(Arc::new(files.load().unwrap())), |http| http);
    let started = Instant::now();
    assert_eq!(read_text(&server.connect()), "");
    assert!(
        started.elapsed() < WAIT_TIMEOUT / 2,
        "the read timed out before the server closed the connection"
    );
    assert!(!server.send_raw(LIVEZ).contains("HTTP"));
    assert!(request(&server, &files.path("certificate"), b"http/1.1", LIVEZ).is_ok());
}

#[test]
fn attack_s14_readable_key() {
    let files = CertificateFiles::new();
    fs::set_permissions(files.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = files.load().unwrap_err().to_string();
    assert!(error.contains("mode 644") && error.contains("chmod 600") && error.contains("/key`"), "{error}");
    fs::set_permissions(files.path("key"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(files.load().is_ok());
    fs::remove_file(files.path("key")).unwrap();
    assert!(matches!(files.load(), Err(TlsError::Read { .. })));
}
