//! TLS over real connections: which certificate is shown, and what is taken.

mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use server::{Found, Service, TOKEN, start};
use tendot_client::{CacheSettings, HttpUpstream};
use tendot_server::http::{Limits, Tls, TlsError, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.make(2030);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new certificate with a new key, both put in place at once.
    fn make(&self, year: i32) {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        self.put("key", &key.serialize_pem());
        self.put("certificate", &certificate.pem());
    }

    fn put(&self, name: &str, text: &str) {
        let beside = self.path("new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(beside, self.path(name)).unwrap();
    }

    fn read(&self) -> Result<Tls, TlsError> {
        Tls::read(self.path("certificate"), self.path("key"))
    }
}

/// Somebody between us and the upstream cannot speak for it.
#[test]
fn attack_c6_an_upstream_that_nobody_vouches_for() {
    let there = start(Limits::default(), Some(Arc::new(Files::new().read().unwrap())), |http| http);
    let base = format!("https://localhost:{}", there.address.port());
    let upstream = Upstream::Http(Box::new(HttpUpstream::new(&base).unwrap()));
    let here = start(Limits::default(), None, |http| http.upstream(upstream, CacheSettings::default()));
    let found = here.ask("GET", "/api/handles/10.7777/ONE", "");
    let said = String::from_utf8_lossy(&found.body).into_owned();
    assert!(found.status == 502 && said.contains(&format!("{base} can't be reached")), "{said}");
}

/// Asks over TLS, trusting the certificate in the file alone.
fn ask(
    service: &Service,
    trusted: &Path,
    protocol: &[u8],
    said: &str,
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
    service.runtime.block_on(async {
        let stream = TcpStream::connect(service.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        stream.write_all(said.as_bytes()).await?;
        let mut answer = vec![0; 64 << 10];
        let read = stream.read(&mut answer).await?;
        answer.truncate(read);
        Ok((agreed, answer))
    })
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[test]
fn certificates_are_read_again_without_a_restart() {
    let files = Files::new();
    let tls = Arc::new(files.read().unwrap());
    assert_eq!(tls.expiry(), Some(1_893_456_000));
    let service = start(Limits::default(), Some(Arc::clone(&tls)), |http| http);
    let works = |trusted: &str| ask(&service, &files.path(trusted), b"http/1.1", LIVEZ).is_ok();
    assert!(works("certificate"));
    fs::copy(files.path("certificate"), files.path("old")).unwrap();

    // One that is broken, and one that does not fit: the old one stays.
    files.put("certificate", "-----BEGIN CERTIFICATE-----\nbroken");
    std::thread::sleep(Duration::from_secs(3));
    assert!(works("old"));
    assert!(matches!(tls.reload(), Err(TlsError::Pem { .. })));
    let other = Files::new();
    files.put("certificate", &fs::read_to_string(other.path("certificate")).unwrap());
    std::thread::sleep(Duration::from_secs(3));
    assert!(works("old") && !works("certificate"));

    files.make(2031);
    let begun = Instant::now();
    while !works("certificate") {
        assert!(begun.elapsed() < Duration::from_secs(10), "the new one is not shown");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!works("old"));
    assert_eq!(tls.expiry(), Some(1_924_992_000));
}

#[test]
fn http2_is_agreed_on() {
    let files = Files::new();
    let service = start(Limits::default(), Some(Arc::new(files.read().unwrap())), |http| http);
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (agreed, answer) = ask(&service, &files.path("certificate"), b"h2", preface).unwrap();
    assert_eq!(agreed.as_deref(), Some(&b"h2"[..]));
    // The answer begins with SETTINGS.
    assert_eq!(answer[3], 4);
}

#[test]
fn credentials_are_taken_over_tls() {
    let files = Files::new();
    let tls = Some(Arc::new(files.read().unwrap()));
    let service = start(Limits::default(), tls, |http| http.trust_loopback(false));
    let put = |token: &str| {
        let body = r#"[{"index":1,"type":"URL","data":"https://example.org/"}]"#;
        let said = format!(
            "PUT /api/handles/10.5555/TLS HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Found::of(&ask(&service, &files.path("certificate"), b"http/1.1", &said).unwrap().1).status
    };
    assert_eq!(put("wrong"), 401);
    assert_eq!(put(TOKEN), 201);
}

#[test]
fn who_does_not_speak_tls_is_cut_off() {
    let files = Files::new();
    let limits = Limits { header_time: Duration::from_secs(1), ..Limits::default() };
    let service = start(limits, Some(Arc::new(files.read().unwrap())), |http| http);
    let begun = Instant::now();
    assert_eq!(server::rest(&mut service.connect()), "");
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(!service.say(LIVEZ).contains("HTTP"));
    assert!(ask(&service, &files.path("certificate"), b"http/1.1", LIVEZ).is_ok());
}

#[test]
fn attack_s14_a_key_that_others_can_read() {
    let files = Files::new();
    fs::set_permissions(files.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = files.read().unwrap_err().to_string();
    assert!(error.contains("mode 644") && error.contains("chmod 600") && error.contains("/key`"), "{error}");
    fs::set_permissions(files.path("key"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(files.read().is_ok());
    fs::remove_file(files.path("key")).unwrap();
    assert!(matches!(files.read(), Err(TlsError::File { .. })));
}
