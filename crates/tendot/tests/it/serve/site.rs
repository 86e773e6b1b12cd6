//! Three server processes of one site partition the handles, and clients find the responsible server.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde_json::{Value as Json, json};
use tendot_client::native::{AdminClient, AdminError, AdminIdentity, AdminServer, RootSites};
use tendot_proto::record::{Admin, AdminPermissions, Site};
use tendot_proto::{Handle, HandleValue};
use tendot_testing::conformance;
use tendot_testing::handle_messages::response_code;
use tendot_testing::http::HttpRequest;
use tokio::runtime::Runtime;

use super::native::{exchange, exchange_datagram, resolution};
use crate::support::{TestDir, TestServer, TestServerBuilder, text_output};

/// The response codes over TCP and over UDP.
fn response_codes(address: SocketAddr, name: &str) -> [u32; 2] {
    let response = exchange(address, &resolution(name)).unwrap();
    let (datagram, _) = exchange_datagram(address, &resolution(name));
    // The first datagram of a response contains its header.
    let header = datagram[20..28].last_chunk::<4>().unwrap();
    [response_code(&response), u32::from_be_bytes(*header)]
}

/// The HTTP status and the response code of a write with a password.
fn put(server: &TestServer, name: &str, credentials: &str) -> (u16, u64) {
    let body = json!({"values": [{"index": 1, "type": "URL", "data": "https://example.org/"}]});
    let basic = format!("Authorization: Basic {}", BASE64.encode(credentials.as_bytes()));
    let request = HttpRequest::new("PUT", &format!("/api/handles/{name}")).header(&basic).json(&body);
    let response = request.send(server.address());
    (response.status, response.json()["responseCode"].as_u64().unwrap())
}

fn handle_net(file: &str) -> PathBuf {
    conformance("vectors/handle-net").join(file)
}

const SERVERS: [&str; 3] = ["one", "two", "three"];

/// Site with three servers that partition its handles: the records of the recorded server, whose prefixes are at this site.
struct ThreeServerSite {
    dir: TestDir,
    site: Site<'static>,
    servers: Vec<TestServer>,
    names: Vec<String>,
}

impl ThreeServerSite {
    fn start(hash_option: &str) -> Self {
        let dir = TestDir::new();
        // The first start of each server creates its key and its site record.
        let builders: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (1..)
                .zip(SERVERS)
                .map(|(number, name)| {
                    let address = format!("127.0.0.{number}:0");
                    let builder = TestServer::builder(&dir).data(name).native(&address).http(&address);
                    scope.spawn(move || {
                        let server = builder.start();
                        let [native, http] = [server.native_address(), server.address()];
                        builder.native(&native.to_string()).http(&http.to_string())
                    })
                })
                .collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let parts = SERVERS.map(|server| format!("{server}/siteinfo.json"));
        let parts = parts.each_ref().map(String::as_str);
        dir.run_ok(
            &[&["site", "combine", "--output", "site.json", "--hash-option", hash_option], &parts[..]]
                .concat(),
        );
        let json = dir.read("site.json");
        let site = Site::from_json(json.as_bytes()).unwrap();
        let names = write_records(&dir.file("records.jsonl"), &serde_json::from_str(&json).unwrap());
        let servers = builders.into_iter().zip(SERVERS).map(|(builder, server)| {
            dir.run_ok(&["import", "--data", server, "--site", "site.json", "records.jsonl"]);
            builder.set("native.site_file=site.json").set("native.admins=300:0.NA/10.5555").start()
        });
        Self { site, servers: servers.collect(), names, dir }
    }

    fn response_codes(&self, server: usize, name: &str) -> [u32; 2] {
        response_codes(self.servers[server].native_address(), name)
    }

    /// The number of the server that is responsible for a name.
    fn responsible(&self, name: &str) -> usize {
        Handle::from(name).server_index(self.site.hash_option, 3).unwrap()
    }

    /// A name under the prefix that this server is responsible for.
    fn name_at(&self, server: usize, start: &str) -> String {
        let mut names = (0..).map(|number| format!("10.5555/{start}-{number}"));
        names.find(|name| self.responsible(name) == server).unwrap()
    }

    fn root(&self) -> RootSites {
        RootSites::from_site(self.site.clone())
    }

    /// Site of one of the servers only, which is queried for every name.
    fn only(&self, server: usize) -> RootSites {
        RootSites::from_site(Site { servers: vec![self.site.servers[server].clone()], ..self.site.clone() })
    }
}

/// Writes the records of the recorded server, with this site instead of its own; their names.
fn write_records(path: &Path, site: &Json) -> Vec<String> {
    let (mut lines, mut names) = (String::new(), Vec::new());
    for line in std::fs::read_to_string(handle_net("records.jsonl")).unwrap().lines() {
        let mut record: Json = serde_json::from_str(line).unwrap();
        for value in record["values"].as_array_mut().unwrap() {
            if value["type"] == "HS_SITE" {
                value["data"]["value"] = site.clone();
            }
        }
        names.push(record["handle"].as_str().unwrap().to_owned());
        lines = format!("{lines}{record}\n");
    }
    std::fs::write(path, lines).unwrap();
    names
}

fn identities() -> [AdminIdentity; 3] {
    let key = std::fs::read(handle_net("admpriv.bin")).unwrap();
    [
        AdminIdentity::with_secret_key(301, "10.5555/ADMIN", b"opensesame"),
        AdminIdentity::with_key_file(300, "10.5555/ADMIN", &key, None).unwrap(),
        AdminIdentity::with_key_file(300, "0.NA/10.5555", &key, None).unwrap(),
    ]
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The response code of an operation that was rejected; 1 if it succeeded.
#[track_caller]
fn code<T>(outcome: Result<T, AdminError>) -> u32 {
    match outcome {
        Ok(_) => 1,
        Err(AdminError::ErrorResponse { code, .. }) => code.0,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn handles_are_partitioned() {
    for hash_option in ["handle", "suffix", "prefix"] {
        let cluster = ThreeServerSite::start(hash_option);
        for name in &cluster.names {
            let responsible = cluster.responsible(name);
            for server in 0..3 {
                let expected = if server == responsible { 1 } else { 301 };
                assert_eq!(
                    cluster.response_codes(server, name),
                    [expected; 2],
                    "{hash_option}: {name} at {server}"
                );
            }
            // A client of the site queries the responsible server.
            let found = cluster.dir.run_ok(&[
                "resolve",
                "--root",
                "site.json",
                "--require-certified",
                "--json",
                "--",
                name,
            ]);
            assert!(
                found.contains(&format!("127.0.0.{}", responsible + 1)),
                "{hash_option}: {name}: {found}"
            );
        }
        let none = cluster.name_at(0, "none");
        assert_eq!(cluster.response_codes(0, &none), [100, 100]);
        assert_eq!(cluster.response_codes(1, &none), [301, 301]);
        assert_eq!(cluster.response_codes(0, "10.9999/none"), [301, 301]);
        let mut exported: Vec<String> = Vec::new();
        for (number, server) in SERVERS.iter().enumerate() {
            let lines = cluster.dir.run_ok(&["export", "--data", server]);
            for line in lines.lines() {
                let record: Json = serde_json::from_str(line).unwrap();
                let name = record["handle"].as_str().unwrap();
                assert_eq!(cluster.responsible(name), number, "{hash_option}: {name}");
                exported.push(name.to_owned());
            }
        }
        let mut names = cluster.names.clone();
        names.sort();
        exported.sort();
        assert_eq!(exported, names, "{hash_option}");
    }
}

/// Permissions and keys are looked up at the responsible server, usually another one.
#[test]
fn administration_at_each_server() {
    let (cluster, runtime) = (ThreeServerSite::start("handle"), runtime());
    let url = HandleValue::new(1, "URL", "https://example.org/");
    for identity in identities() {
        let reference = identity.reference().clone();
        let permissions = AdminPermissions(0x0ff3);
        let owner = Admin { permissions, reference, legacy_byte_length: false }.to_bytes();
        let values = [url.clone(), HandleValue::with_data(100, "HS_ADMIN", owner)];
        for server in 0..3 {
            for mode in ["plain", "signed", "session", "encrypted"] {
                let name = cluster.name_at(server, mode);
                let peer = AdminServer::for_handle(&cluster.root(), &name).unwrap();
                let mut admin = AdminClient::new(peer, identity.clone());
                runtime.block_on(async {
                    match mode {
                        "signed" => admin = admin.require_signature(),
                        "session" => admin.open_session(false).await.unwrap(),
                        "encrypted" => admin.open_session(true).await.unwrap(),
                        _ => {}
                    }
                    assert_eq!(code(admin.create(&name, &values).await), 1, "{identity:?} {name}");
                    let other = HandleValue::new(1, "URL", "https://example.org/2");
                    assert_eq!(code(admin.modify_values(&name, &[other]).await), 1, "{identity:?} {name}");
                    assert_eq!(cluster.response_codes(server, &name), [1, 1]);
                    assert_eq!(code(admin.delete(&name).await), 1, "{identity:?} {name}");
                    assert_eq!(cluster.response_codes(server, &name), [100, 100]);
                });
            }
            // A server that is not responsible rejects it.
            let other = cluster.name_at((server + 1) % 3, "other");
            let peer = AdminServer::for_handle(&cluster.only(server), &other).unwrap();
            let mut admin = AdminClient::new(peer, identity.clone());
            assert_eq!(code(runtime.block_on(admin.create(&other, &values))), 301);
            // A server lists only handles of its partition, and generates only such handles.
            let peer = AdminServer::for_handle(&cluster.only(server), "10.5555/").unwrap();
            let mut admin = AdminClient::new(peer, identity.clone());
            let minted = runtime.block_on(admin.mint("10.5555/", &values)).unwrap().unwrap();
            assert_eq!(cluster.responsible(&minted), server, "{minted}");
            let mut listed = Vec::new();
            let each = |name: Handle<'_>| {
                listed.push(name.to_string());
                ControlFlow::Continue(())
            };
            runtime.block_on(admin.list_handles("10.5555", each)).unwrap();
            assert!(
                listed.contains(&minted) && listed.iter().all(|name| cluster.responsible(name) == server)
            );
        }
    }
    for server in 0..3 {
        let (local, remote) = (cluster.name_at(server, "http"), cluster.name_at((server + 1) % 3, "http"));
        let server = &cluster.servers[server];
        assert_eq!(put(server, &local, "301%3A10.5555/ADMIN:opensesame"), (201, 1));
        assert_eq!(put(server, &remote, "301%3A10.5555/ADMIN:opensesame").1, 301);
        assert_eq!(put(server, &local, "301%3A10.5555/ADMIN:wrong").0, 401);
        assert_eq!(put(server, &local, "301%3A10.5555/NONE:opensesame").0, 401);
    }
}

#[test]
fn unauthorized_is_refused() {
    let (mut cluster, runtime) = (ThreeServerSite::start("handle"), runtime());
    let responsible = cluster.responsible("10.5555/ADMIN");
    let other = (responsible + 1) % 3;
    let name = cluster.name_at(other, "denied");
    let peer = AdminServer::for_handle(&cluster.root(), &name).unwrap();
    let url = [HandleValue::new(1, "URL", "https://example.org/")];
    let refused = |identity: AdminIdentity| {
        code(runtime.block_on(AdminClient::new(peer.clone(), identity).create(&name, &url)))
    };
    assert_eq!(refused(AdminIdentity::with_secret_key(301, "10.5555/ADMIN", b"wrong")), 403);
    assert_eq!(refused(AdminIdentity::with_secret_key(301, "10.5555/ONE", b"opensesame")), 400);
    assert_eq!(refused(AdminIdentity::with_secret_key(300, "10.5555/ADMIN", b"opensesame")), 403);
    let key = std::fs::read(handle_net("privkey.bin")).unwrap();
    let stranger = AdminIdentity::with_key_file(300, "10.5555/ADMIN", &key, None).unwrap();
    assert_eq!(refused(stranger), 403);
    assert_eq!(cluster.response_codes(other, &name), [100, 100]);
    // Without the server that has the key, credentials cannot be verified.
    drop(cluster.servers.remove(responsible));
    let [secret, ..] = identities();
    assert_eq!(refused(secret), 3);
}

#[test]
fn combine_refuses_invalid_records() {
    let dir = TestDir::new();
    for (server, address) in [("one", "127.0.0.1:0"), ("two", "127.0.0.2:0"), ("all", "0.0.0.0:0")] {
        drop(TestServer::builder(&dir).data(server).native(address).start());
    }
    let combine = |parts: &[&str]| {
        let parts: Vec<_> = parts.iter().map(|part| format!("{part}/siteinfo.json")).collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        dir.run(&[&["site", "combine", "--json", "--output", "site.json"], &parts[..]].concat())
    };
    let refused = |parts: &[&str], expected: &str| {
        let (code, _, stderr) = combine(parts);
        assert!(code == Some(2) && stderr.contains(expected), "{stderr}");
    };
    refused(&["one", "none"], "`none/siteinfo.json` does not exist");
    refused(&["one", "two", "one"], "duplicate server key in `one/siteinfo.json`");
    refused(&["one", "all"], "hint: set `native.public_address`");
    assert!(!dir.file("site.json").exists());
    let site = |stdout: &str| Site::from_json(stdout.as_bytes()).unwrap();
    let first = site(&combine(&["one", "two"]).1);
    let ids: Vec<u32> = first.servers.iter().map(|server| server.id).collect();
    assert_eq!((first.serial, ids), (2, vec![1, 2]));
    // The same records give the same site; another order gives another one.
    assert_eq!(site(&combine(&["one", "two"]).1), first);
    let second = site(&combine(&["two", "one"]).1);
    assert_eq!((second.serial, &second.servers[0].public_key), (3, &first.servers[1].public_key));

    let site_file = ["--set", "native.site_file=site.json"];
    assert_eq!(site(&dir.run_ok(&[&["site", "show", "--data", "one"], &site_file[..]].concat())), second);
    dir.run_ok(&[&["site", "export", "--data", "one", "a.zip"], &site_file[..]].concat());
    let bundle = std::fs::read(dir.file("a.zip")).unwrap();
    let has = |bytes: &[u8]| bundle.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"127.0.0.1") && has(b"127.0.0.2") && has(&second.to_bytes()));
    // A server whose key is not in the record, or that has no permanent key, does not start.
    let server = TestServer::builder(&dir).http("off").with_native().set("native.site_file=site.json");
    let (code, _, stderr) = text_output(&mut server.clone().data("all").command());
    assert!(code == Some(2) && stderr.contains("0 servers of the site have this server's key"), "{stderr}");
    let (code, _, stderr) = text_output(&mut server.in_memory().command());
    assert!(code == Some(2) && stderr.contains("has no persistent key"), "{stderr}");
}

/// The servers of a site get new keys one after the other. Clients with any earlier record accept the responses of all servers.
#[test]
fn rotated_keys_of_a_combined_site() {
    let (dir, names) = (TestDir::new(), ["one", "two"]);
    let builders: Vec<_> = (1..)
        .zip(names)
        .map(|(number, name)| {
            let address = format!("127.0.0.{number}:0");
            let builder = TestServer::builder(&dir).data(name).native(&address).http(&address);
            let server = builder.start();
            let [native, http] = [server.native_address(), server.address()];
            builder.native(&native.to_string()).http(&http.to_string())
        })
        .collect();
    let combine = |copy: &str| {
        dir.run_ok(&["site", "combine", "--output", "site.json", "one/siteinfo.json", "two/siteinfo.json"]);
        dir.write(copy, dir.read("site.json"));
    };
    combine("site-0.json");
    let records =
        write_records(&dir.file("records.jsonl"), &serde_json::from_str(&dir.read("site.json")).unwrap());
    for name in names {
        dir.run_ok(&["import", "--data", name, "--site", "site.json", "records.jsonl"]);
    }
    let check = |rotations: usize| {
        let start = |builder: &TestServerBuilder| builder.clone().set("native.site_file=site.json").start();
        let _servers: Vec<_> = builders.iter().map(start).collect();
        for root in 0..=rotations {
            let root = format!("site-{root}.json");
            for name in &records {
                dir.run_ok(&["resolve", "--root", &root, "--require-certified", "--json", "--", name]);
            }
        }
    };
    check(0);
    for (rotations, (name, builder)) in (1..).zip(names.into_iter().zip(&builders)) {
        let rotate = ["site", "rotate-key", "--data", name, "--set", "native.site_file=site.json"];
        let finish = ["site", "rotate-key", "--data", name, "--finish"];
        assert!(dir.run_to(1, &finish).1.contains("there is no old server key"));
        dir.run_ok(&rotate);
        assert!(dir.run_to(2, &rotate).1.contains("the last roll-over is not finished"));
        assert_eq!(dir.mode(&format!("{name}/privkey.bin")), 0o600);
        // This start writes the record of the server.
        drop(builder.start());
        combine(&format!("site-{rotations}.json"));
        check(rotations);
    }
    for name in names {
        dir.run_ok(&["site", "rotate-key", "--data", name, "--finish"]);
    }
    let start = |builder: &TestServerBuilder| builder.clone().set("native.site_file=site.json").start();
    let _servers: Vec<_> = builders.iter().map(start).collect();
    let with_root = |root| dir.run(&["resolve", "--root", root, "--require-certified", "0.NA/10.5555"]).0;
    assert_eq!((with_root("site-2.json"), with_root("site-0.json")), (Some(0), Some(2)));
}
