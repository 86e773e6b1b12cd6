//! `tendot resolve`: one server, from a root, every transport, and errors.

use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::KeyPair;
use data_encoding::BASE64;
use rcgen::{CertificateParams, PKCS_RSA_SHA256};
use serde_json::Value as Json;
use tendot_client::LookupOutcome;
use tendot_client::native::{
    AdminClient, AdminIdentity, AdminServer, NativeClient, ResolveOptions, RootSites,
};
use tendot_proto::auth::PrivateKey;
use tendot_proto::bootstrap::encode_root_info;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{InterfaceKind, InterfaceProtocol, ServerInterface, Site};
use tendot_proto::{Budget, Handle, HandleValue, ResponseCode};
use tendot_testing::handle_server::{TestHandleServer, TestHandleService, site_value};
use tendot_testing::http::HttpRequest;
use tendot_testing::{block_on, conformance, free_port};

use crate::support::{TestDir, TestServer, tendot, text_output};

const URL: &str = "https://example.org/182";

fn handle_net(file: &str) -> PathBuf {
    conformance("vectors/handle-net").join(file)
}

fn service() -> TestHandleService {
    let values = vec![HandleValue::new(1, "URL", URL), HandleValue::new(2, "DESC", "a\u{202e}b")];
    TestHandleService::new().with_record("10.1000/182", values)
}

/// Exit code, standard output and standard error.
fn resolve(arguments: &[&str]) -> (i32, String, String) {
    let (code, stdout, stderr) = text_output(tendot().arg("resolve").args(arguments));
    (code.unwrap(), stdout, stderr)
}

/// `TENDOT_SERVER` is the server unless `--server` or `--root` is given; `--server handle-system` begins at the root.
#[test]
fn server_from_environment() {
    let handle_server = block_on(TestHandleServer::start(service()));
    let server = format!("hdl://{}", handle_server.address);
    let run = |arguments: &[&str]| {
        let mut command = tendot();
        command.arg("resolve").args(arguments).env("TENDOT_SERVER", &server);
        text_output(&mut command)
    };
    let (code, stdout, stderr) = run(&["10.1000/182"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains(&format!("  from {} over ", handle_server.address)), "{stdout}");
    let root = ["--root", "none.json", "10.1000/182"];
    for arguments in [&root[..], &["--server", "handle-system", "--root", "none.json", "10.1000/182"]] {
        let (code, _, stderr) = run(arguments);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(!stderr.contains(&handle_server.address.to_string()), "{stderr}");
    }
    let (code, _, stderr) = run(&["--server", "http://127.0.0.1:1", "10.1000/182"]);
    assert!(code == Some(2) && stderr.contains("127.0.0.1:1"), "{stderr}");
}

#[test]
fn resolves_at_one_server() {
    let handle_server = block_on(TestHandleServer::start(service()));
    let server = format!("hdl://{}", handle_server.address);
    let (code, stdout, stderr) = resolve(&["--server", &server, "https://doi.org/10.1000%2F182"]);
    let stdout: Vec<&str> = stdout.lines().collect();
    assert_eq!((code, stderr.as_str(), stdout[0]), (0, "", "10.1000/182"));
    assert!(stdout[1].starts_with(&format!("  from {} over UDP, ", handle_server.address)), "{}", stdout[1]);
    assert_eq!(stdout[2..], ["    1 URL https://example.org/182", "    2 DESC a\\u{202e}b"]);

    let (code, stdout, _) = resolve(&["--server", &server, "--json", "--tcp", "--index", "2", "10.1000/182"]);
    let stdout: Json = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &stdout["responseCode"], &stdout["transport"]), (0, &1.into(), &"tcp".into()));
    assert_eq!((&stdout["handle"], &stdout["values"][0]["index"]), (&"10.1000/182".into(), &2.into()));
    assert_eq!(
        (&stdout["from"], stdout["values"].as_array().unwrap().len()),
        (&handle_server.address.to_string().into(), 1)
    );

    let key = handle_net("pubkey.bin");
    let other = handle_net("admpub.bin");
    let certified = |key: &Path| {
        let key = key.to_str().unwrap();
        resolve(&[
            "--server",
            &server,
            "--require-certified",
            "--server-key",
            key,
            "--type",
            "URL",
            "10.1000/182",
        ])
    };
    assert_eq!(certified(&key).0, 0);
    let (code, stdout, stderr) = certified(&other);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("over TCP: response signature"), "{stderr}");
}

/// `doi:` and `urn:doi:` are removed before every prefix, and what follows is decoded, over both protocols.
#[test]
fn statement_066_every_prefix_in_every_form() {
    let names = ["alpha-beta/msws", "20.500.12345/x", "dk/P\u{e6}dagogi 37(2), 562", "10.abc/ab/cd/ef"];
    let value = || vec![HandleValue::new(1, "URL", URL)];
    let service =
        names.iter().fold(TestHandleService::new(), |service, name| service.with_record(name, value()));
    let handle_server = block_on(TestHandleServer::start(service));
    let dir = TestDir::new();
    let lines: String = names
        .iter()
        .map(|name| {
            let value =
                serde_json::json!({"index": 1, "type": "URL", "data": {"format": "string", "value": URL}});
            format!("{}\n", serde_json::json!({"handle": name, "values": [value]}))
        })
        .collect();
    dir.run_ok(&["import", &dir.write("records.jsonl", lines)]);
    let http = TestServer::builder(&dir).start();
    for server in [format!("hdl://{}", handle_server.address), http.url()] {
        for (form, name) in [
            ("doi:alpha-beta/msws", names[0]),
            ("alpha-beta/msws", names[0]),
            ("urn:doi:20.500.12345/x", names[1]),
            ("hdl:20.500.12345/x", names[1]),
            ("DOI:dk/P%C3%A6dagogi%2037(2),%20562", names[2]),
            ("doi:10.abc/ab/cd/ef", names[3]),
            ("https://doi.org/10.abc%2Fab%2Fcd%2Fef", names[3]),
        ] {
            let (code, stdout, stderr) = resolve(&["--server", &server, form]);
            assert_eq!((code, stdout.lines().next()), (0, Some(name)), "{server} {form}: {stderr}");
        }
        let (code, _, stderr) = resolve(&["--server", &server, "doi:dk/caf%E9"]);
        let message = "error: invalid name `doi:dk/caf%E9`: invalid UTF-8 (at byte 10)\n";
        assert_eq!((code, &*stderr), (2, message), "{server}");
    }
}

/// A record of the root in `upstream = "handle-system:FILE"` cannot make the server query a private address.
#[test]
fn audit_f16_upstream_referrals_to_private_addresses() {
    let names = block_on(TestHandleServer::start(
        TestHandleService::new().with_record("10.77/1", vec![HandleValue::new(1, "URL", URL)]),
    ));
    let root = block_on(TestHandleServer::start(
        TestHandleService::new().with_record("0.NA/10.77", vec![site_value(1, &names.site())]),
    ));
    let dir = TestDir::new();
    dir.write("root.bin", encode_root_info(&[site_value(1, &root.site())]));
    let upstream = format!("upstream=handle-system:{}", dir.file("root.bin").display());
    let target = "/api/handles/10.77/1";
    let refuses = TestServer::builder(&dir).in_memory().set(&upstream).start();
    assert_ne!(HttpRequest::get(target).send(refuses.address()).status, 200);
    assert!(
        HttpRequest::get("/api/handles/0.NA/10.77").send(refuses.address()).status == 200,
        "the root is queried"
    );
    let follows =
        TestServer::builder(&dir).in_memory().set(&upstream).set("upstream_private_addresses=true").start();
    assert_eq!(HttpRequest::get(target).send(follows.address()).status, 200);
}

#[test]
fn not_found() {
    let handle_server = block_on(TestHandleServer::start(service()));
    let server = format!("hdl://{}", handle_server.address);
    let (code, stdout, stderr) = resolve(&["--server", &server, "10.1000/nope"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with("error: handle not found: `10.1000/nope` (response code 100)\n"), "{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
    let (code, stdout, _) = resolve(&["--server", &server, "--json", "10.1000/nope"]);
    let stdout: Json = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &stdout["responseCode"], &stdout["values"]),
        (1, &100.into(), &Json::Array(Vec::new()))
    );
    let (code, _, stderr) = resolve(&["--server", &server, "--type", "EMAIL", "10.1000/182"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("has no matching public value"), "{stderr}");
    handle_server.service().forced_code = Some(ResponseCode::SERVER_NOT_RESPONSIBLE);
    let (code, _, stderr) = resolve(&["--server", &server, "10.1000/182"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("is not responsible for `10.1000/182` (response code 301)")
            && stderr.contains("hint: "),
        "{stderr}"
    );
}

#[test]
fn resolves_from_root() {
    let responsible = block_on(TestHandleServer::start(service()));
    let prefix = vec![site_value(1, &responsible.site())];
    let root =
        block_on(TestHandleServer::start(TestHandleService::new().with_record("0.NA/10.1000", prefix)));
    let dir = TestDir::new();
    let file = &*dir.write("root_info", encode_root_info(&[site_value(1, &root.site())]));
    for extra in [&[][..], &["--require-certified"], &["--auth"], &["--udp"], &["--tcp"]] {
        let (code, stdout, stderr) = resolve(&[&["--root", file, "10.1000/182"], extra].concat());
        assert!(code == 0 && stdout.contains(URL), "{extra:?}: {stderr}");
        assert!(stdout.contains(&responsible.address.to_string()), "{stdout}");
    }
    let (code, _, stderr) = resolve(&["--root", file, "10.2000/182"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no site for its prefix"), "{stderr}");
    std::fs::write(file, "rubbish").unwrap();
    let (code, _, stderr) = resolve(&["--root", file, "10.1000/182"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("neither JSON"), "{stderr}");
}

#[test]
fn over_http() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().start();
    let url = server.url();
    let (code, stdout, _) = resolve(&["--server", &url, "--type", "URL", "10.5555/demo"]);
    assert!(code == 0 && stdout.contains("over HTTP") && stdout.contains("    1 URL "), "{stdout}");
    assert!(!stdout.contains("DESC"), "{stdout}");
    let (code, stdout, _) = resolve(&["--server", &url, "--json", "10.5555/none"]);
    assert!(code == 1 && stdout.contains("\"responseCode\":100"), "{stdout}");
    let (code, _, stderr) = resolve(&["--server", &url, "--require-certified", "10.5555/demo"]);
    assert!(code == 2 && stderr.contains("hint: "), "{stderr}");
}

/// A server whose site record has only an HTTPS interface is reached over HTTPS, and identified by the key in the record.
#[test]
fn resolves_and_administers_over_https() {
    let dir = TestDir::new();
    dir.run_ok(&["import", handle_net("records.jsonl").to_str().unwrap()]);
    let server = TestServer::builder(&dir).http("off").with_native();
    assert_eq!(server.start().terminate(), Some(0));
    write_site_certificate(&dir);
    let server = server.with_https().start();
    let address = server.https_address();

    let mut site = Site::from_json(dir.read("tendot-data/siteinfo.json").as_bytes()).unwrap();
    let port = u32::from(address.port());
    site.servers[0].interfaces =
        vec![ServerInterface { kind: InterfaceKind::BOTH, protocol: InterfaceProtocol::HTTPS, port }];
    let resolve = |site: &Site<'static>| {
        let config = RootSites::from_site(site.clone()).into_direct_config(Handle::from("10.5555/ONE"));
        block_on(NativeClient::new(config).resolve("10.5555/ONE", &ResolveOptions::default()))
    };
    let resolution = resolve(&site).unwrap();
    assert_eq!(resolution.server.unwrap().transport, InterfaceProtocol::HTTPS);
    assert!(matches!(resolution.outcome, LookupOutcome::Values(_)));
    let administer = |site: &Site<'static>, name: &str| {
        let peer = AdminServer::for_handle(&RootSites::from_site(site.clone()), name).unwrap();
        let identity = AdminIdentity::with_secret_key(301, "10.5555/ADMIN", b"opensesame");
        let mut admin = AdminClient::new(peer, identity);
        block_on(admin.create(name, &[HandleValue::new(1, "URL", "https://example.org/")]))
    };
    administer(&site, "10.5555/HTTPS").unwrap();

    // A server with another key is rejected.
    let other = std::fs::read(handle_net("pubkey.bin")).unwrap();
    site.servers[0].public_key = other.into();
    assert!(resolve(&site).is_err());
    assert!(administer(&site, "10.5555/HTTPS-2").is_err());
}

/// Writes a certificate for the key of the site, and this key as PKCS #8.
fn write_site_certificate(dir: &TestDir) {
    let file = std::fs::read(dir.file("tendot-data/privkey.bin")).unwrap();
    let key = PrivateKey::from_file_bytes(&file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST }).unwrap();
    let pair = KeyPair::from_der(&key.to_der().unwrap()).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let text = BASE64.encode(pkcs8.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let pair =
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &PKCS_RSA_SHA256);
    let certificate = CertificateParams::default().self_signed(&pair.unwrap()).unwrap();
    dir.write("certificate.pem", certificate.pem());
    dir.write("key.pem", pem);
    dir.set_mode("key.pem", 0o600);
}

#[test]
fn unreachable_or_invalid_server() {
    let dead = format!("127.0.0.1:{}", free_port());
    let check = |arguments: &[&str], expected: &str| {
        let (code, stdout, stderr) = resolve(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{arguments:?}: {stderr}");
    };
    check(&["--server", &format!("hdl://{dead}"), "10.1000/182"], "over TCP: unreachable");
    check(&["--server", &format!("http://{dead}"), "10.1000/182"], "request to http://");
    check(&["--server", "gopher://x", "10.1000/182"], "invalid upstream URL");
    check(&["--server", "hdl://127.0.0.1", "--require-certified", "10.1000/182"], "hint: use `--server-key");
    check(&["--root", "/nonexistent", "10.1000/182"], "cannot read `/nonexistent`: ");
    check(&["--server", "hdl://127.0.0.1", ""], "invalid name ``");
}
