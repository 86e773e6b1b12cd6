//! Servers whose site names HTTPS: asked there when no other way leads to them, and known by their key.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::KeyPair;
use data_encoding::BASE64;
use rcgen::{CertificateParams, PKCS_RSA_SHA256};
use tendot_client::Found;
use tendot_client::native::{Administrator, Identity, Native, Peer, Query, Root};
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLc;
use tendot_proto::record::{Interface, InterfaceKind, Site, Transport};
use tendot_proto::{Handle, Value, Work};

struct Service {
    process: Child,
    ready: String,
}

impl Service {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
        command.current_dir(directory).arg("serve").args(arguments).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = said.find(|line| line.starts_with("ready: ")).expect("it is ready");
        std::thread::spawn(move || said.for_each(drop));
        Self { process, ready }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net")
}

/// Writes the key of the site as others have keys, and a certificate for it.
fn write_certificate(directory: &Path) {
    let file = std::fs::read(directory.join("tendot-data/privkey.bin")).unwrap();
    let key = PrivateKey::from_file(&file, None, &AwsLc, &mut { Work::REQUEST }).unwrap();
    let pair = KeyPair::from_der(&key.to_der().unwrap()).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let text = BASE64.encode(pkcs8.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let pair =
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &PKCS_RSA_SHA256);
    let certificate = CertificateParams::default().self_signed(&pair.unwrap()).unwrap();
    std::fs::write(directory.join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), pem).unwrap();
    std::fs::set_permissions(directory.join("key.pem"), Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_last_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let records = vectors().join("records.jsonl");
    let mut import = Command::new(env!("CARGO_BIN_EXE_tendot"));
    assert!(import.current_dir(path).arg("import").arg(records).status().unwrap().success());
    drop(Service::start(path, &["--http", "off", "--native", "127.0.0.1:0"]));
    write_certificate(path);
    let tls =
        ["http.tls.certificate=certificate.pem", "http.tls.key=key.pem"].map(|set| ["--set", set]).concat();
    let arguments = ["--http", "off", "--https", "127.0.0.1:0", "--native", "127.0.0.1:0"];
    let service = Service::start(path, &[&arguments[..], &tls].concat());
    let address = service.ready.split(' ').find_map(|address| address.strip_prefix("https://")).unwrap();
    let address: SocketAddr = address.trim_end_matches('/').parse().unwrap();

    let json = std::fs::read(path.join("tendot-data/siteinfo.json")).unwrap();
    let mut site = Site::from_json(&json).unwrap();
    let port = u32::from(address.port());
    site.servers[0].interfaces =
        vec![Interface { kind: InterfaceKind::BOTH, transport: Transport::HTTPS, port }];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let resolve = |site: &Site<'static>| {
        let config = Root::of(site.clone()).config_for(Handle::from("10.5555/ONE"));
        runtime.block_on(Native::new(config).resolve("10.5555/ONE", &Query::default()))
    };
    let resolution = resolve(&site).unwrap();
    assert_eq!(resolution.from.unwrap().transport, Transport::HTTPS);
    assert!(matches!(resolution.found, Found::Values(_)));
    let administer = |site: &Site<'static>, name: &str| {
        let peer = Peer::of(&Root::of(site.clone()), name).unwrap();
        let identity = Identity::with_secret_key(301, "10.5555/ADMIN", b"opensesame");
        let mut admin = Administrator::new(peer, identity);
        runtime.block_on(admin.create(name, &[Value::new(1, "URL", "https://example.org/")]))
    };
    administer(&site, "10.5555/HTTPS").unwrap();

    // Who has another key is another.
    let other = std::fs::read(vectors().join("pubkey.bin")).unwrap();
    site.servers[0].public_key = other.into();
    assert!(resolve(&site).is_err());
    assert!(administer(&site, "10.5555/HTTPS-2").is_err());
}
