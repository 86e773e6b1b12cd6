//! Signed records: keys, signatures from the command line and on write, and their verification at every interface.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{HandleRecord, RecordSignature, ValueReference};
use tendot_proto::trust::{RecordSigner, is_signature};
use tendot_proto::{Handle, HandleValue};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::postgres::create_database_url;
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer, TestServerBuilder};

const SIGNER: &str = "300:0.NA/10.5555";
const ROOT: &str = "300:0.0/0.0";

/// Keys of a root and of the prefix 10.5555, and the records with their certificates.
struct TrustFixture {
    dir: TestDir,
    /// Records `0.0/0.0` and `0.NA/10.5555`.
    certificates: Vec<Json>,
}

impl TrustFixture {
    fn new() -> Self {
        let dir = TestDir::new();
        for (file, key) in
            [("root.bin", "privkey.bin"), ("rootpub.bin", "pubkey.bin"), ("signer.bin", "admpriv.bin")]
        {
            dir.write(file, handle_net_file(key));
            dir.set_mode(file, 0o600);
        }
        let certify = |key: &str, subject: &str, permit: &str| -> Json {
            let arguments = [
                "key",
                "certify",
                key,
                "--subject",
                subject,
                "--issuer",
                ROOT,
                "--key",
                "root.bin",
                "--permit",
                permit,
            ];
            serde_json::from_str(&dir.run_ok(&arguments)).unwrap()
        };
        let root = certify("rootpub.bin", ROOT, "everything");
        let signer = certify("signer.bin", SIGNER, "handlesUnderThisPrefix:0.NA/10.5555");
        let jwk: Json =
            serde_json::from_str(&dir.run_ok(&["key", "convert", "--public", "--to", "jwk", "signer.bin"]))
                .unwrap();
        let key = json!({"index": 300, "type": "HS_PUBKEY", "data": {"format": "key", "value": jwk}});
        let certificates = vec![
            json!({"handle": "0.0/0.0", "values": [root]}),
            json!({"handle": "0.NA/10.5555", "values": [key, admin(), signer]}),
        ];
        Self { dir, certificates }
    }

    /// Record with these values and a signature by `key` in the name of the signer.
    fn signed_with(&self, key: &str, name: &str, values: &Json) -> Json {
        let file = self.dir.write("record.json", json!({"handle": name, "values": values}).to_string());
        let arguments = ["handle", "sign", name, "--record", &file, "--signer", SIGNER, "--signing-key", key];
        serde_json::from_str(&self.dir.run_ok(&arguments)).unwrap()
    }

    fn signed(&self, name: &str, values: &Json) -> Json {
        self.signed_with("signer.bin", name, values)
    }

    /// Imports the certificates and these records.
    fn import(&self, records: &[Json]) {
        let lines: Vec<String> = self.certificates.iter().chain(records).map(Json::to_string).collect();
        let file = self.dir.write("records.jsonl", lines.join("\n"));
        self.dir.run_ok(&["import", &file]);
    }

    /// Server that signs on write.
    fn signing_server(&self) -> TestServerBuilder {
        TestServer::builder(&self.dir)
            .set("signing.prefixes=10.5555,10.70000")
            .set("signing.key=signer.bin")
            .set(&format!("signing.signer={SIGNER}"))
            .set("trust.anchor=rootpub.bin")
    }

    /// Exit code and output of `tendot resolve --require-signed`.
    fn resolve(&self, server: &str, name: &str) -> (i32, String, String) {
        self.resolve_with(server, name, &[])
    }

    fn resolve_with(&self, server: &str, name: &str, options: &[&str]) -> (i32, String, String) {
        let arguments = ["resolve", "--server", server, "--require-signed", name];
        let anchor = if options.contains(&"--anchor") { &[][..] } else { &["--anchor", "rootpub.bin"] };
        let (code, stdout, stderr) = self.dir.run(&[&arguments[..], anchor, options].concat());
        (code.unwrap(), stdout, stderr)
    }
}

fn admin() -> Json {
    json!({"index": 100, "type": "HS_ADMIN", "data": {"format": "admin", "value":
        {"handle": "0.NA/10.5555", "index": 300, "permissions": "111111111111"}}})
}

fn url_value(url: &str) -> Json {
    json!({"index": 1, "type": "URL", "data": {"format": "string", "value": url}})
}

#[test]
fn keys_in_every_format() {
    let dir = TestDir::new();
    let original = handle_net_file("admpriv.bin");
    let fingerprint = |file: &str| {
        let shown: Json = serde_json::from_str(&dir.run_ok(&["key", "show", "--json", file])).unwrap();
        assert_eq!((&shown["type"], &shown["bits"]), (&"RSA".into(), &2048.into()));
        shown["fingerprint"].as_str().unwrap().to_owned()
    };
    dir.write("a.bin", &original);
    dir.set_mode("a.bin", 0o600);
    for [from, to] in [["a.bin", "b.pem"], ["b.pem", "c.jwk"], ["c.jwk", "d.bin"]] {
        dir.run_ok(&["key", "convert", from, to]);
        assert_eq!(dir.mode(to), 0o600);
    }
    assert_eq!(fs::read(dir.file("d.bin")).unwrap(), original);
    for [from, to] in [["a.bin", "e.bin"], ["e.bin", "f.pem"], ["f.pem", "g.json"], ["g.json", "h.bin"]] {
        dir.run_ok(&["key", "convert", "--public", from, to]);
        assert_eq!(fingerprint(to), fingerprint("a.bin"), "{to}");
    }
    assert_eq!(fs::read(dir.file("h.bin")).unwrap(), handle_net_file("admpub.bin"));
    // OpenSSL reads what we write, and the other way round.
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(&["pkey", "-in", "b.pem", "-check", "-noout"]);
    openssl(&["pkey", "-pubin", "-in", "f.pem", "-noout"]);
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "o.pem"]);
    openssl(&["rsa", "-in", "o.pem", "-traditional", "-out", "p.pem"]);
    assert_eq!(fingerprint("o.pem"), fingerprint("p.pem"));

    dir.write("passphrase", "open sesame\n");
    dir.run_ok(&["key", "generate", "new.bin", "--public", "newpub.bin", "--encrypt-with", "passphrase"]);
    let (_, stderr) = dir.run_to(2, &["key", "show", "new.bin"]);
    assert!(stderr.contains("passphrase required") && stderr.contains("--passphrase-file"), "{stderr}");
    dir.run_ok(&["key", "convert", "new.bin", "new.pem", "--passphrase-file", "passphrase"]);
    assert_eq!(fingerprint("new.pem"), fingerprint("newpub.bin"));
    assert_eq!((dir.mode("new.bin"), dir.mode("newpub.bin"), dir.mode("h.bin")), (0o600, 0o644, 0o644));
    // No public key is written that does not belong to the private key beside it.
    let (_, stderr) = dir.run_to(2, &["key", "generate", "new.pem", "--public", "other.bin"]);
    assert!(stderr.contains("`new.pem` exists") && !dir.file("other.bin").exists(), "{stderr}");
    let (_, stderr) = dir.run_to(2, &["key", "generate", "other.pem", "--public", "newpub.bin"]);
    assert!(stderr.contains("`newpub.bin` exists") && !dir.file("other.pem").exists(), "{stderr}");
    let (_, stderr) = dir.run_to(2, &["key", "generate", "new.bin"]);
    assert!(stderr.contains("exists") && stderr.contains("--force"), "{stderr}");
    dir.write("wrong", "nothing");
    let (_, stderr) = dir.run_to(2, &["key", "show", "wrong"]);
    assert!(stderr.contains("neither PEM, JWK nor a key file of Handle.Net"), "{stderr}");
    openssl(&["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "ec.pem"]);
    assert!(dir.run_to(2, &["key", "show", "ec.pem"]).1.contains("hint: "));
}

#[test]
fn signed_records_are_trusted() {
    let fixture = TrustFixture::new();
    let values = json!([url_value("https://example.org/one"), admin(),
        {"index": 3, "type": "NOTE", "data": "private", "permissions": "1100"}]);
    fixture.import(&[fixture.signed("10.5555/one", &values)]);
    let server = TestServer::builder(&fixture.dir).with_native().start();
    let native = format!("hdl://{}", server.native_address());
    for server in [&server.url(), &native] {
        let (code, stdout, stderr) = fixture.resolve(server, "10.5555/ONE");
        assert_eq!((code, stderr.as_str()), (0, ""), "{server}: {stdout}");
        assert!(stdout.contains("\n  signed by 300:0.NA/10.5555, valid until 20"), "{stdout}");
        assert!(stdout.contains("    1 URL https://example.org/one"), "{stdout}");
        let (code, stdout, _) = fixture.resolve_with(server, "10.5555/one", &["--type", "URL", "--json"]);
        let found: Json = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, found["values"].as_array().unwrap().len()), (0, 1), "{stdout}");
        assert_eq!(found["signatures"][0]["signed_by"], SIGNER);
        assert_eq!(found["signatures"][0]["chain"], json!([ROOT]));
        let (code, _, stderr) = fixture.resolve(server, "10.5555/none");
        assert!(code == 1 && stderr.contains("handle not found"), "{stderr}");
    }
    // Trust anchors as a record, and another anchor.
    let jwk: Json =
        serde_json::from_str(&fixture.dir.run_ok(&["key", "convert", "--to", "jwk", "rootpub.bin"])).unwrap();
    let anchor = |handle: &str| json!({"handle": handle, "values": [{"index": 300, "type": "HS_PUBKEY", "data": {"format": "key", "value": jwk}}]});
    fixture.dir.write("anchor.json", anchor("0.0/0.0").to_string());
    fixture.dir.write("elsewhere.json", anchor("0.NA/10.5555").to_string());
    let with_anchor = |file: &str| fixture.resolve_with(&native, "10.5555/one", &["--anchor", file]);
    assert_eq!(with_anchor("anchor.json").0, 0);
    for file in ["elsewhere.json", "signer.bin"] {
        let (code, stdout, stderr) = with_anchor(file);
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.contains("300:0.0/0.0 is self-signed but not a trust anchor"), "{stderr}");
    }
    // Without an anchor, the root of the Handle System.
    let arguments = ["resolve", "--server", &native, "--require-signed", "10.5555/one"];
    assert!(fixture.dir.run_to(2, &arguments).1.contains("not a trust anchor"));
}

/// Records that are not what their signatures say: each is rejected with its reason, at every interface.
#[test]
fn forged_records_are_rejected() {
    let fixture = TrustFixture::new();
    let values = json!([url_value("https://example.org/one")]);
    let tampered = |name: &str, change: &dyn Fn(&mut Vec<Json>)| {
        let mut record = fixture.signed(name, &values);
        change(record["values"].as_array_mut().unwrap());
        record
    };
    let foreign = |name: &str| {
        let mut record = fixture.signed("10.5555/other", &values);
        record["handle"] = name.into();
        record
    };
    let expired = {
        let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
        let signer = RecordSigner::new(ValueReference::parse(SIGNER), key.into(), 60);
        let mut values = vec![HandleValue::new(1, "URL", "https://example.org/one")];
        signer.sign(Handle::from("10.5555/expired"), &mut values, 1_700_000_000, &AwsLcProvider).unwrap();
        serde_json::to_value(HandleRecord { handle: b"10.5555/expired".into(), values }).unwrap()
    };
    let is_signature = |value: &Json| value["type"] == "HS_SIGNATURE";
    let cases = [
        (
            tampered("10.5555/changed", &|values| values[0] = url_value("https://evil.example/")),
            "value 1: changed after it was signed",
        ),
        (
            tampered("10.5555/added", &|values| {
                values.push(json!({"index": 2, "type": "URL", "data": "https://evil.example/"}));
            }),
            "value 2: not covered by a valid signature",
        ),
        (tampered("10.5555/removed", &|values| drop(values.remove(0))), "value 1: signed but missing"),
        (
            tampered("10.5555/unsigned", &|values| values.retain(|value| !is_signature(value))),
            "no signature (HS_SIGNATURE)",
        ),
        (
            tampered("10.5555/rubbish", &|values| values[1]["data"] = "rubbish".into()),
            "invalid signature value 400",
        ),
        (foreign("10.5555/replayed"), "subject mismatch: 10.5555/other"),
        (
            fixture.signed_with("root.bin", "10.5555/forged", &values),
            "signature 400: signature of 300:0.NA/10.5555 does not match",
        ),
        (fixture.signed("10.6666/scope", &values), "300:0.NA/10.5555 is not authorized to sign this record"),
        (expired, "statement of 300:0.NA/10.5555 expired at 2023-11-14T22:14:20Z"),
    ];
    let records: Vec<Json> = cases.iter().map(|(record, _)| record.clone()).collect();
    fixture.import(&records);
    let server = TestServer::builder(&fixture.dir).with_native().set("trust.anchor=rootpub.bin").start();
    let native = format!("hdl://{}", server.native_address());
    let upstream_dir = TestDir::new();
    let anchor = format!("trust.anchor={}", fixture.dir.file("rootpub.bin").display());
    let front = TestServer::builder(&upstream_dir)
        .set(&format!("upstream={}", server.url()))
        .set("trust.require_signed_upstream=true")
        .set(&anchor)
        .start();
    for (record, reason) in &cases {
        let name = record["handle"].as_str().unwrap();
        for server in [&server.url(), &native] {
            let (code, stdout, stderr) = fixture.resolve(server, name);
            assert_eq!((code, stdout.as_str()), (2, ""), "{name}: {stderr}");
            assert!(stderr.contains("is not trusted") && stderr.contains(reason), "{name}: {stderr}");
        }
        // A server that requires signatures of its upstream does not redirect.
        let response = front.get(&format!("/{name}"));
        assert_eq!(response.status, 502, "{name}");
        let response = front.get(&format!("/api/handles/{name}"));
        assert!(response.status >= 500, "{name}: {}", response.status);
        let body = response.json();
        assert_eq!(body["responseCode"], 2, "{name}: {body}");
        assert!(body["message"].as_str().unwrap().contains(reason), "{name}: {body}");
        // The page and the trace say what is wrong.
        if name != "10.5555/unsigned" {
            let page = server.get(&format!("/{name}?noredirect")).text().into_owned();
            assert!(page.contains("Signature not trusted") && page.contains(reason), "{name}: {page}");
            let trace = server.get(&format!("/{name}?explain=json")).json();
            let step =
                trace["steps"].as_array().unwrap().iter().find(|step| step["step"] == "signature").unwrap();
            assert_eq!(step["ok"], false, "{name}: {trace}");
            assert!(step["message"].as_str().unwrap().contains(reason), "{name}: {trace}");
        }
    }
}

#[test]
fn signs_at_a_server() {
    let fixture = TrustFixture::new();
    let values = json!([url_value("https://example.org/one"), admin()]);
    // Two signatures of one signer, as other programs may leave them.
    let mut twice = fixture.signed("10.5555/twice", &values);
    let mut second = twice["values"][2].clone();
    second["index"] = 401.into();
    twice["values"].as_array_mut().unwrap().push(second);
    fixture.import(&[json!({"handle": "10.5555/one", "values": values}), twice]);
    let server = TestServer::builder(&fixture.dir).with_native().start();
    let native = format!("hdl://{}", server.native_address());
    let sign = |server: &str, extra: &[&str]| {
        let arguments =
            ["handle", "sign", "10.5555/one", "--server", server, "--auth", SIGNER, "--key", "signer.bin"];
        fixture.dir.run(&[&arguments, extra].concat())
    };
    assert_eq!(fixture.resolve(&native, "10.5555/one").0, 2);
    for server in [&native, &server.url(), &native] {
        let (code, _, stderr) = sign(server, &[]);
        assert_eq!(code, Some(0), "{server}: {stderr}");
        assert!(
            stderr.contains("by 300:0.NA/10.5555, valid until 20") && stderr.contains("value 400"),
            "{stderr}"
        );
        let (code, stdout, stderr) = fixture.resolve(&native, "10.5555/one");
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(stdout.matches("HS_SIGNATURE").count(), 1, "{stdout}");
    }
    let (code, stdout, _) = sign(&native, &["--json", "--valid-days", "1"]);
    assert_eq!(code, Some(0));
    assert_eq!(serde_json::from_str::<Json>(&stdout).unwrap()["signed_by"], SIGNER);
    let arguments =
        ["handle", "sign", "10.5555/twice", "--server", &native, "--auth", SIGNER, "--key", "signer.bin"];
    fixture.dir.run_ok(&arguments);
    let (code, stdout, stderr) = fixture.resolve(&native, "10.5555/twice");
    assert_eq!((code, stdout.matches("HS_SIGNATURE").count()), (0, 1), "{stdout}{stderr}");
    let arguments =
        ["handle", "sign", "10.5555/none", "--server", &native, "--auth", SIGNER, "--key", "signer.bin"];
    fixture.dir.run_to(1, &arguments);
}

/// The server renews a signature that expires soon, after its start; `/metrics` has the earliest expiry.
#[test]
fn signatures_are_renewed() {
    let fixture = TrustFixture::new();
    let record = json!({"handle": "10.5555/one", "values": [url_value("https://example.org/one")]});
    let file = fixture.dir.write("record.json", record.to_string());
    let sign = ["handle", "sign", "10.5555/one", "--record", &file, "--signer", SIGNER];
    let arguments = [&sign[..], &["--signing-key", "signer.bin", "--valid-days", "2"]].concat();
    let signed: Json = serde_json::from_str(&fixture.dir.run_ok(&arguments)).unwrap();
    fixture.import(std::slice::from_ref(&signed));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as f64;
    let server = fixture.signing_server().with_native().start();
    let expiry = || {
        let metrics = server.get("/metrics").text().into_owned();
        let name = "tendot_signatures_earliest_expiry_timestamp_seconds ";
        metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok())
    };
    wait_until("the signature is renewed", || expiry().is_some());
    let days = (expiry().unwrap() - now) / 86_400.0;
    assert!((729.0..731.0).contains(&days), "{days}");
    let stored = server.get("/api/handles/10.5555/one").json();
    assert_ne!(stored["values"][1]["data"], signed["values"][1]["data"], "{stored}");
    let (code, stdout, stderr) =
        fixture.resolve(&format!("hdl://{}", server.native_address()), "10.5555/one");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let history = server.get("/api/v1/history/10.5555/one").json();
    assert_eq!(history["items"][1]["by"], "signing", "{history}");
}

/// Record and signature are one revision, over every interface and store; an unchanged record is not signed again.
#[test]
fn signs_on_write() {
    for store in ["embedded:", &create_database_url()] {
        let fixture = TrustFixture::new();
        let server = fixture
            .signing_server()
            .store(store)
            .with_native()
            .args(&["--set", "native.admins=300:0.NA/10.5555"]);
        let server = server.args(&["--set", "log.level=warn"]).start();
        let token = server.token();
        let send = |method: &str, target: &str, body: &Json| {
            let request = tendot_testing::http::HttpRequest::new(method, target).bearer(&token);
            request.json(body).send(server.address())
        };
        for prefix in ["10.5555", "10.6666", "0.NA", "0.0"] {
            let request = tendot_testing::http::HttpRequest::new("POST", &format!("/api/prefixes/{prefix}"));
            let response = request.bearer(&token).send(server.address());
            assert_eq!(response.status, 200, "{store}: {}", response.text());
        }
        for record in &fixture.certificates {
            let target = format!("/api/handles/{}", record["handle"].as_str().unwrap());
            let response = send("PUT", &target, record);
            assert_eq!(response.status, 201, "{store}: {}", response.text());
        }
        let put = |name: &str, url: &str| {
            let response = send("PUT", &format!("/api/handles/{name}"), &json!([url_value(url), admin()]));
            assert!(response.status < 300, "{store}: {}", response.text());
        };
        let revisions = |name: &str| {
            send("GET", &format!("/api/v1/history/{name}"), &Json::Null).json()["items"]
                .as_array()
                .unwrap()
                .len()
        };
        let trusted = |name: &str| {
            let (code, stdout, stderr) = fixture.resolve(&server.url(), name);
            assert_eq!(code, 0, "{store}: {stderr}");
            assert_eq!(stdout.matches("HS_SIGNATURE").count(), 1, "{store}: {stdout}");
        };
        put("10.5555/w", "https://example.org/1");
        trusted("10.5555/w");
        assert_eq!(revisions("10.5555/w"), 1, "{store}");
        put("10.5555/w", "https://example.org/1");
        assert_eq!(revisions("10.5555/w"), 1, "{store}: nothing changed");
        put("10.5555/w", "https://example.org/2");
        trusted("10.5555/w");
        assert_eq!(revisions("10.5555/w"), 2, "{store}");
        put("10.6666/x", "https://example.org/1");
        let (_, _, stderr) = fixture.resolve(&server.url(), "10.6666/x");
        assert!(stderr.contains("no signature"), "{store}: {stderr}");
        // The native protocol.
        let native = format!("hdl://{}", server.native_address());
        assert_eq!(fixture.resolve(&native, "10.5555/w").0, 0, "{store}");
        // Page and trace.
        let page = server.get("/10.5555/w?noredirect").text().into_owned();
        assert!(page.contains("Signed by 300:0.NA/10.5555, valid until 20"), "{store}: {page}");
        let trace = server.get("/10.5555/w?explain=json").json();
        assert_eq!(trace["signature"]["trusted"], true, "{store}: {trace}");
        assert_eq!(trace["signature"]["signatures"][0]["signed_by"], SIGNER);
        // The registry: registration, update, and a batch.
        let agency = json!({"code": "LIB", "name": "The library", "metadata": "optional"});
        let response = send("POST", "/api/v1/agencies", &agency);
        assert_eq!(response.status, 201, "{}", response.text());
        let registrant = json!({"agency": "LIB", "name": "Press", "contact": "a@b.org"});
        let registrant = send("POST", "/api/v1/registrants", &registrant).json()["id"].clone();
        let response =
            send("POST", "/api/v1/prefixes", &json!({"registrant": registrant, "prefix": "10.70000"}));
        assert_eq!(response.status, 201, "{}", response.text());
        let doi = json!({"name": "10.70000/a", "url": "https://example.org/a"});
        let response = send("POST", "/api/v1/dois", &doi);
        assert_eq!(response.status, 201, "{}", response.text());
        let count = |name: &str| {
            let record = server.get(&format!("/api/handles/{name}")).json();
            record["values"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|value| value["type"] == "HS_SIGNATURE")
                .count()
        };
        assert_eq!((count("10.70000/a"), revisions("10.70000/a")), (1, 1), "{store}");
        let update = |values: &Json| send("PUT", "/api/v1/dois/10.70000/a", values);
        assert_eq!(update(&json!({"url": "https://example.org/b", "values": []})).status, 200);
        assert_eq!((count("10.70000/a"), revisions("10.70000/a")), (1, 2), "{store}");
        assert_eq!(update(&json!({"url": "https://example.org/b", "values": []})).status, 200);
        assert_eq!(revisions("10.70000/a"), 2, "{store}: nothing changed");
        let lines =
            (0..20).map(|n| format!("{{\"name\":\"10.70000/n{n}\",\"url\":\"https://example.org/{n}\"}}\n"));
        let batch = tendot_testing::http::HttpRequest::new("POST", "/api/v1/dois/batch").bearer(&token);
        let batch = batch.header("content-type: application/x-ndjson").body(lines.collect::<String>());
        let results = batch.send(server.address()).json_lines();
        assert!(results.len() == 20 && results.iter().all(|line| line["status"] == "created"), "{results:?}");
        assert_eq!((count("10.70000/n7"), revisions("10.70000/n7")), (1, 1), "{store}");
    }
}

/// Writes by the native protocol and transfers are signed, too.
#[test]
fn signs_native_writes_and_transfers() {
    let fixture = TrustFixture::new();
    // An import homes the prefix.
    fixture.import(&[json!({"handle": "10.5555/one", "values": [url_value("https://example.org/one")]})]);
    let server = fixture.signing_server().with_native().set(&format!("native.admins={SIGNER}")).start();
    let native = format!("hdl://{}", server.native_address());
    let credentials = ["--server", &native, "--auth", SIGNER, "--key", "signer.bin"];
    let handle = |arguments: &[&str]| {
        fixture.dir.run_ok(&[&["handle"][..], arguments, &credentials].concat());
    };
    // The signature covers all values.
    let check = |name: &str, revisions: usize| {
        let history = server.get(&format!("/api/v1/history/{name}")).json();
        assert_eq!(history["items"].as_array().unwrap().len(), revisions, "{history}");
        let record = server.get(&format!("/api/handles/{name}")).text().into_owned();
        let record = HandleRecord::from_json(record.as_bytes()).unwrap();
        let (signatures, others): (Vec<_>, Vec<_>) =
            record.values.iter().partition(|value| is_signature(value));
        let [signature] = &*signatures else { panic!("one signature: {record:?}") };
        let signature = RecordSignature::from_bytes(&signature.data).unwrap();
        let signed: Vec<u32> = signature.digests.iter().map(|digest| digest.index).collect();
        let indexes: Vec<u32> = others.iter().map(|value| value.index).collect();
        assert_eq!(signed, indexes, "{name}");
        indexes
    };
    handle(&["create", "10.5555/n", "1:URL:https://example.org/1"]);
    let (code, _, stderr) = fixture.resolve(&native, "10.5555/n");
    assert_eq!(code, 0, "{stderr}");
    check("10.5555/n", 1);
    handle(&["update", "10.5555/n", "7:NOTE:seven"]);
    assert!(check("10.5555/n", 2).contains(&7));
    assert_eq!(fixture.resolve(&native, "10.5555/n").0, 0);

    let post = |path: &str, body: &Json| {
        let response = server.request("POST", &format!("/api/v1/{path}")).json(body).send(server.address());
        assert!(response.status < 300, "{path}: {}", response.text());
        response.json()
    };
    post("agencies", &json!({"code": "LIB", "name": "The library", "metadata": "optional"}));
    let [press, shop] = ["Press", "Shop"].map(|name| {
        post("registrants", &json!({"agency": "LIB", "name": name, "contact": "a@b.org"}))["id"].clone()
    });
    post("prefixes", &json!({"registrant": press, "prefix": "10.70000"}));
    post("dois", &json!({"name": "10.70000/a", "url": "https://example.org/a"}));
    check("10.70000/a", 1);
    let transfer = post("transfers", &json!({"names": ["10.70000/a"], "to": shop}));
    post(&format!("transfers/{}/accept", transfer["id"].as_str().unwrap()), &json!({}));
    check("10.70000/a", 2);
}

/// A native upstream: the records of each server that answers have to be signed.
#[test]
fn records_of_native_upstream_must_be_signed() {
    let fixture = TrustFixture::new();
    let builder = TestServer::builder(&fixture.dir).http("off").with_native();
    let address = builder.start().native_address().to_string();
    let builder = builder.native(&address);
    let site: Json = serde_json::from_str(&fixture.dir.read("tendot-data/siteinfo.json")).unwrap();
    let mut prefix = fixture.certificates[1].clone();
    let value = json!({"index": 1, "type": "HS_SITE", "data": {"format": "site", "value": site}});
    prefix["values"].as_array_mut().unwrap().push(value);
    let values = json!([url_value("https://example.org/one")]);
    let unsigned = json!({"handle": "10.5555/unsigned", "values": values});
    let records = [fixture.certificates[0].clone(), prefix, fixture.signed("10.5555/one", &values), unsigned];
    let file = fixture.dir.write("native.jsonl", records.map(|record| record.to_string()).join("\n"));
    fixture.dir.run_ok(&["import", &file]);
    let _server = builder.start();
    let front_dir = TestDir::new();
    let path = |file: &str| fixture.dir.file(file).display().to_string();
    for is_required in [true, false] {
        let front = TestServer::builder(&front_dir)
            .in_memory()
            .set(&format!("upstream=handle-system:{}", path("tendot-data/siteinfo.json")))
            .set("upstream_private_addresses=true")
            .set(&format!("trust.require_signed_upstream={is_required}"))
            .set(&format!("trust.anchor={}", path("rootpub.bin")))
            .start();
        let signed = front.get("/10.5555/one");
        assert_eq!(signed.header("location"), Some("https://example.org/one"), "{}", signed.text());
        let unsigned = front.get("/api/handles/10.5555/unsigned");
        assert_eq!(unsigned.status, if is_required { 500 } else { 200 }, "{}", unsigned.text());
        assert_eq!(unsigned.text().contains("no signature"), is_required, "{}", unsigned.text());
    }
}

#[test]
fn upstream_records_must_be_signed() {
    let fixture = TrustFixture::new();
    let values = json!([url_value("https://example.org/one")]);
    fixture.import(&[fixture.signed("10.5555/one", &values)]);
    let server = TestServer::builder(&fixture.dir).start();
    let front_dir = TestDir::new();
    let anchor = format!("trust.anchor={}", fixture.dir.file("rootpub.bin").display());
    let front = TestServer::builder(&front_dir)
        .set(&format!("upstream={}", server.url()))
        .set("trust.require_signed_upstream=true")
        .set(&anchor)
        .start();
    assert_eq!(front.get("/10.5555/one").header("location"), Some("https://example.org/one"));
    assert_eq!(front.get("/10.5555/none").status, 404);
    let page = front.get("/10.5555/one?noredirect").text().into_owned();
    assert!(page.contains("Signed by 300:0.NA/10.5555, valid until 20"), "{page}");
}

/// A verified record is not served from the cache after its signature has expired, regardless of its TTL.
#[test]
fn signatures_expire_in_the_cache() {
    let fixture = TrustFixture::new();
    fixture.import(&[fixture.signed("10.5555/one", &json!([url_value("https://example.org/one")]))]);
    let server = TestServer::builder(&fixture.dir).start();
    let front_dir = TestDir::new();
    let front = TestServer::builder(&front_dir)
        .set(&format!("upstream={}", server.url()))
        .set("trust.require_signed_upstream=true")
        .set(&format!("trust.anchor={}", fixture.dir.file("rootpub.bin").display()))
        .start();
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let signer = RecordSigner::new(ValueReference::parse(SIGNER), key.into(), 5);
    let mut values = vec![HandleValue::new(1, "URL", "https://example.org/soon")];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    signer.sign(Handle::from("10.5555/soon"), &mut values, now, &AwsLcProvider).unwrap();
    let record = serde_json::to_value(HandleRecord { handle: b"10.5555/soon".into(), values }).unwrap();
    let put = tendot_testing::http::HttpRequest::new("PUT", "/api/handles/10.5555/soon");
    let put = put.bearer(&server.token()).json(&record).send(server.address());
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!(front.get("/10.5555/soon").header("location"), Some("https://example.org/soon"));
    let expired = "300:0.NA/10.5555 expired at";
    wait_until("the signature expires", || {
        let response = front.get("/api/handles/10.5555/soon").json();
        response["message"].as_str().is_some_and(|message| message.contains(expired))
    });
    assert_eq!(front.get("/10.5555/soon").status, 502);
}

#[test]
fn contradictory_settings_are_refused() {
    let dir = TestDir::new();
    let rejected = |setting: &str| {
        let output = TestServer::builder(&dir).set(setting).command().output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let stderr = rejected("signing.prefixes=10.5555");
    assert!(stderr.contains("`signing.key`") && stderr.contains("`signing.signer`"), "{stderr}");
    let stderr = rejected("trust.require_signed_upstream=true");
    assert!(stderr.contains("has no effect unless `upstream` is set"), "{stderr}");
    // A key that others can read.
    let fixture = TrustFixture::new();
    fixture.dir.set_mode("signer.bin", 0o644);
    let output = fixture.signing_server().command().output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && stderr.contains("readable by other users"), "{stderr}");
    // An encrypted key: no user can be asked.
    fixture.dir.write("passphrase", "open sesame");
    fixture.dir.run_ok(&["key", "generate", "signer.bin", "--force", "--encrypt-with", "passphrase"]);
    let output = fixture.signing_server().command().output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && stderr.contains("tendot key convert"), "{stderr}");
}
