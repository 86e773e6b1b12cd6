//! Client certificates: the key authenticates a client, the subject of the certificate only selects the record.

use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use rcgen::{CertificateParams, DnType, PKCS_RSA_SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tendot_proto::HandleValue;
use tendot_proto::record::PublicKey;
use tendot_server::http::{HttpLimits, ServerCertificate};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TestServer, bind, start_at, trust_loopback};

/// An RSA key in PKCS #8.
struct ClientKey(Vec<u8>);

impl ClientKey {
    fn new() -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        Self(pkcs8.as_ref().to_vec())
    }

    fn pair(&self) -> rcgen::KeyPair {
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(self.0.clone()),
            &PKCS_RSA_SHA256,
        )
        .unwrap()
    }

    /// The public key as the data of an HS_PUBKEY value.
    fn value(&self) -> Vec<u8> {
        let der = tendot_proto::auth::PrivateKey::from_der(&self.0[26..]).unwrap();
        let public: PublicKey<'static> = der.public_key().unwrap();
        public.to_bytes()
    }

    fn certificate(&self, names: &[(DnType, &str)]) -> CertificateDer<'static> {
        self.certificate_valid_in(names, 1975..4096)
    }

    fn certificate_valid_in(&self, names: &[(DnType, &str)], years: Range<i32>) -> CertificateDer<'static> {
        let mut parameters = CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            parameters.distinguished_name.push(kind.clone(), *name);
        }
        parameters.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        parameters.self_signed(&self.pair()).unwrap().der().clone()
    }
}

/// The authenticated identity of the client, or `anonymous`; the status if it is not 200.
fn authenticated_identity(
    server: &TestServer,
    root: &CertificateDer<'static>,
    client: Option<(&ClientKey, CertificateDer<'static>)>,
    header: &str,
) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some((key, certificate)) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.0.clone()));
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let response = server.runtime.block_on(async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let request_text = format!(
            "GET /api/sessions/this HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n"
        );
        stream.write_all(request_text.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // Without close_notify this is an error after the response.
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap()
    });
    let status = response.split(' ').nth(1).unwrap().to_owned();
    let body: serde_json::Value = serde_json::from_str(response.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    body["id"].as_str().map_or_else(|| if status == "200" { "anonymous".into() } else { status }, Into::into)
}

/// Requests authentication by the certificate.
const HEADER: &str = "Authorization: Handle clientCert=\"true\"";

/// A certificate of the server, as the root of its clients and as the server loads it.
fn server_certificate(key: &ClientKey) -> (CertificateDer<'static>, ServerCertificate) {
    let directory = tempfile::tempdir().unwrap();
    let root = key.certificate(&[]);
    let path = |name: &str| directory.path().join(name);
    let pem = |kind: &str, der: &[u8]| {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", data_encoding::BASE64.encode(der))
    };
    std::fs::write(path("certificate"), pem("CERTIFICATE", &root)).unwrap();
    std::fs::write(path("key"), pem("PRIVATE KEY", &key.0)).unwrap();
    std::fs::set_permissions(path("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let certificate = ServerCertificate::load(path("certificate"), path("key")).unwrap();
    (root, certificate)
}

/// A server with the record `10.5555/WHO`.
fn start(certificate: ServerCertificate, values: Vec<HandleValue<'static>>) -> TestServer {
    let edits = vec![put_edit("10.5555/WHO", values), home_edit("10.5555")];
    let tls = Some(Arc::new(certificate));
    start_at(bind(), edits, HttpLimits::default(), tls, |http| trust_loopback(http, false))
}

/// A certificate that has expired or is not yet valid does not authenticate.
#[test]
fn audit_f16_expired_client_certificates() {
    let (server_key, client_key) = (ClientKey::new(), ClientKey::new());
    let (root, certificate) = server_certificate(&server_key);
    let values = vec![HandleValue::with_data(300, "HS_PUBKEY", client_key.value())];
    let server = start(certificate.request_client_certificates().unwrap(), values);
    let identity = "300:10.5555/WHO";
    for (years, expected) in [(1990..2200, identity), (1990..2020, "401"), (2100..2200, "401")] {
        let certificate = client_key.certificate_valid_in(&[(DnType::CommonName, identity)], years.clone());
        let response = authenticated_identity(&server, &root, Some((&client_key, certificate)), HEADER);
        assert_eq!(response, expected, "{years:?}");
    }
}

/// The subject of another client's certificate does not authenticate; a certificate is used only if a header requests it.
#[test]
fn attack_a16_name_of_another_client() {
    let (server_key, client_key, other_key) = (ClientKey::new(), ClientKey::new(), ClientKey::new());
    let (root, certificate) = server_certificate(&server_key);
    let values = vec![
        HandleValue::with_data(300, "HS_PUBKEY", client_key.value()),
        HandleValue::with_data(301, "HS_PUBKEY", other_key.value()),
        HandleValue::new(302, "HS_SECKEY", "secret"),
    ];
    let server = start(certificate.request_client_certificates().unwrap(), values.clone());
    let user_id = || DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]);
    let check = |key: &ClientKey, names: &[(DnType, &str)], header: &str, expected: &str| {
        let response = authenticated_identity(&server, &root, Some((key, key.certificate(names))), header);
        assert_eq!(response, expected, "{names:?}");
    };
    let common_name = |name: &'static str| [(DnType::CommonName, name)];
    let identity = "300:10.5555/WHO";
    check(&client_key, &common_name(identity), HEADER, identity);
    check(&client_key, &common_name("10.5555/WHO"), HEADER, identity);
    check(&other_key, &common_name("301:10.5555/WHO"), HEADER, "301:10.5555/WHO");
    check(&client_key, &[(DnType::CommonName, "x"), (user_id(), identity)], HEADER, identity);
    check(&client_key, &[(DnType::CommonName, identity), (user_id(), "301:10.5555/WHO")], HEADER, "401");
    check(&other_key, &common_name(identity), HEADER, "401");
    check(&server_key, &common_name(identity), HEADER, "401");
    check(&client_key, &common_name("301:10.5555/WHO"), HEADER, "401");
    check(&client_key, &common_name("302:10.5555/WHO"), HEADER, "401");
    check(&client_key, &common_name("300:10.5555/NOBODY"), HEADER, "401");
    check(&client_key, &common_name("somebody"), HEADER, "401");
    check(&client_key, &[], HEADER, "401");
    // Browsers send certificates by themselves, also for pages of other sites.
    check(&client_key, &common_name(identity), "X-Other: value", "anonymous");
    assert_eq!(authenticated_identity(&server, &root, None, HEADER), "401");
    assert_eq!(authenticated_identity(&server, &root, None, "X-Other: value"), "anonymous");
    // A server that does not request certificates gets none.
    let (root, certificate) = server_certificate(&server_key);
    let without_client_auth = start(certificate, values);
    assert_eq!(
        authenticated_identity(
            &without_client_auth,
            &root,
            Some((&client_key, client_key.certificate(&common_name(identity)))),
            HEADER
        ),
        "401"
    );
}
