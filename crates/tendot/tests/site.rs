//! Three servers of one site, as three processes: they share the names, and clients find who keeps which.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use data_encoding::BASE64;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tendot_client::native::{AdministrationError, Administrator, Identity, Peer, Root};
use tendot_proto::record::{Admin, AdminPermissions, Site};
use tendot_proto::{Handle, Message, Now, Value};
use tokio::runtime::Runtime;

struct Service {
    process: Child,
    native: SocketAddr,
    http: SocketAddr,
}

impl Service {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process =
            tendot(directory).arg("serve").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut before = String::new();
        let ready = said.find(|line| {
            before = format!("{before}{line}\n");
            line.starts_with("ready: ")
        });
        let ready = ready.unwrap_or_else(|| panic!("it is not ready: {before}"));
        std::thread::spawn(move || said.for_each(drop));
        let address = |scheme: &str| {
            let mut addresses = ready.split(' ').filter_map(|address| address.strip_prefix(scheme));
            addresses.next().unwrap().trim_end_matches('/').parse().unwrap()
        };
        let (native, http) = (address("hdl://"), address("http://"));
        Self { process, native, http }
    }

    /// The code of the answer over a connection, and of that by datagram.
    fn ask(&self, name: &str) -> [u32; 2] {
        let question = Message::resolution(Handle::from(name), 7, now()).to_bytes().unwrap();
        let code = |answer: &[u8]| Message::from_bytes(answer).unwrap().header.response_code.0;
        let mut stream = TcpStream::connect(self.native).unwrap();
        stream.write_all(&question).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(&question, self.native).unwrap();
        let mut room = [0; 600];
        let length = socket.recv(&mut room).unwrap();
        // The first part of an answer has its code.
        let header = room[..length][20..28].last_chunk::<4>().unwrap();
        [code(&answer), u32::from_be_bytes(*header)]
    }

    /// The status of a deposit by password, and the code in its answer.
    fn put(&self, name: &str, who: &str) -> (u32, u64) {
        let body =
            json!({"values": [{"index": 1, "type": "URL", "data": "https://example.org/"}]}).to_string();
        let (who, length) = (BASE64.encode(who.as_bytes()), body.len());
        let mut stream = TcpStream::connect(self.http).unwrap();
        write!(
            stream,
            "PUT /api/handles/{name} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {who}\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Json = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        (head[9..12].parse().unwrap(), body["responseCode"].as_u64().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn now() -> Now {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Now { elapsed: Duration::ZERO, unix }
}

fn tendot(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
    command.current_dir(directory);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tendot(directory).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn done(directory: &Path, arguments: &[&str]) -> String {
    let (code, printed, said) = run(directory, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    printed
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net")
}

const SERVERS: [&str; 3] = ["one", "two", "three"];

/// Three servers with the records of the recorded one, in which the prefixes are kept at their site.
struct Three {
    folder: TempDir,
    site: Site<'static>,
    services: Vec<Service>,
    names: Vec<String>,
}

impl Three {
    fn start(hash: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let listening = |number: usize| {
            let address = format!("127.0.0.{}:0", number + 1);
            [address.clone(), address]
        };
        let mut ports = Vec::new();
        for (number, server) in SERVERS.iter().enumerate() {
            let [native, http] = listening(number);
            let alone = Service::start(path, &["--data", server, "--native", &native, "--http", &http]);
            ports.push((alone.native.to_string(), alone.http.to_string()));
        }
        let parts = SERVERS.map(|server| format!("{server}/siteinfo.json"));
        let parts = parts.each_ref().map(String::as_str);
        done(path, &[&["site", "join", "--into", "site.json", "--hash", hash], &parts[..]].concat());
        let json = std::fs::read(path.join("site.json")).unwrap();
        let site = Site::from_json(&json).unwrap();
        let names = write_records(&path.join("records.jsonl"), &serde_json::from_slice(&json).unwrap());
        let mut services = Vec::new();
        for (server, (native, http)) in SERVERS.iter().zip(&ports) {
            done(path, &["import", "--data", server, "--site", "site.json", "records.jsonl"]);
            let settings =
                ["native.site=site.json", "native.admins=300:0.NA/10.5555"].map(|set| ["--set", set]);
            let arguments = ["--data", server, "--native", native, "--http", http];
            services.push(Service::start(path, &[&arguments[..], &settings.concat()].concat()));
        }
        Self { folder, site, services, names }
    }

    /// The number of the server that keeps a name.
    fn keeper(&self, name: &str) -> usize {
        Handle::from(name).server(self.site.hash_option, 3).unwrap()
    }

    /// A name under the prefix that this server keeps.
    fn name_at(&self, server: usize, start: &str) -> String {
        let mut names = (0..).map(|number| format!("10.5555/{start}-{number}"));
        names.find(|name| self.keeper(name) == server).unwrap()
    }

    fn root(&self) -> Root {
        Root::of(self.site.clone())
    }

    /// One server alone, whatever the name.
    fn only(&self, server: usize) -> Root {
        Root::of(Site { servers: vec![self.site.servers[server].clone()], ..self.site.clone() })
    }
}

/// The records of the recorded server, with this site in place of its own; their names.
fn write_records(path: &Path, site: &Json) -> Vec<String> {
    let (mut lines, mut names) = (String::new(), Vec::new());
    for line in std::fs::read_to_string(vectors().join("records.jsonl")).unwrap().lines() {
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

fn identities() -> [Identity; 3] {
    let key = std::fs::read(vectors().join("admpriv.bin")).unwrap();
    [
        Identity::with_secret_key(301, "10.5555/ADMIN", b"opensesame"),
        Identity::with_key_file(300, "10.5555/ADMIN", &key, None).unwrap(),
        Identity::with_key_file(300, "0.NA/10.5555", &key, None).unwrap(),
    ]
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The code of what was refused; 1 if it was done.
#[track_caller]
fn code<T>(outcome: Result<T, AdministrationError>) -> u32 {
    match outcome {
        Ok(_) => 1,
        Err(AdministrationError::Refused { code, .. }) => code.0,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn each_keeps_its_share() {
    for hash in ["name", "local", "prefix"] {
        let three = Three::start(hash);
        let path = three.folder.path();
        for name in &three.names {
            let keeper = three.keeper(name);
            for (server, service) in three.services.iter().enumerate() {
                let expected = if server == keeper { 1 } else { 301 };
                assert_eq!(service.ask(name), [expected; 2], "{hash}: {name} at {server}");
            }
            // Who asks the site finds it, by whichever of the servers.
            let found = done(path, &["resolve", "--root", "site.json", "--certified", "--json", "--", name]);
            assert!(found.contains(&format!("127.0.0.{}", keeper + 1)), "{hash}: {name}: {found}");
        }
        let none = three.name_at(0, "none");
        assert_eq!(three.services[0].ask(&none), [100, 100]);
        assert_eq!(three.services[1].ask(&none), [301, 301]);
        assert_eq!(three.services[0].ask("10.9999/none"), [301, 301]);
        let mut kept: Vec<String> = Vec::new();
        for (number, server) in SERVERS.iter().enumerate() {
            let lines = done(path, &["export", "--data", server]);
            for line in lines.lines() {
                let record: Json = serde_json::from_str(line).unwrap();
                let name = record["handle"].as_str().unwrap();
                assert_eq!(three.keeper(name), number, "{hash}: {name}");
                kept.push(name.to_owned());
            }
        }
        let mut names = three.names.clone();
        names.sort();
        kept.sort();
        assert_eq!(kept, names, "{hash}");
    }
}

/// Rights and keys are where they are: at another server, most of the time.
#[test]
fn all_of_them_can_be_administered() {
    let (three, runtime) = (Three::start("name"), runtime());
    let url = Value::new(1, "URL", "https://example.org/");
    for identity in identities() {
        let who = identity.reference().clone();
        let permissions = AdminPermissions(0x0ff3);
        let owner = Admin { permissions, reference: who, legacy_byte_length: false }.to_bytes();
        let values = [url.clone(), Value::with_data(100, "HS_ADMIN", owner)];
        for server in 0..3 {
            for way in ["plain", "signed", "session", "encrypted"] {
                let name = three.name_at(server, way);
                let peer = Peer::of(&three.root(), &name).unwrap();
                let mut admin = Administrator::new(peer, identity.clone());
                runtime.block_on(async {
                    match way {
                        "signed" => admin = admin.certified(),
                        "session" => admin.open_session(false).await.unwrap(),
                        "encrypted" => admin.open_session(true).await.unwrap(),
                        _ => {}
                    }
                    assert_eq!(code(admin.create(&name, &values).await), 1, "{identity:?} {name}");
                    let other = Value::new(1, "URL", "https://example.org/2");
                    assert_eq!(code(admin.modify(&name, &[other]).await), 1, "{identity:?} {name}");
                    assert_eq!(three.services[server].ask(&name), [1, 1]);
                    assert_eq!(code(admin.delete(&name).await), 1, "{identity:?} {name}");
                    assert_eq!(three.services[server].ask(&name), [100, 100]);
                });
            }
            // At the wrong server, by either door.
            let elsewhere = three.name_at((server + 1) % 3, "elsewhere");
            let peer = Peer::of(&three.only(server), &elsewhere).unwrap();
            let mut admin = Administrator::new(peer, identity.clone());
            assert_eq!(code(runtime.block_on(admin.create(&elsewhere, &values))), 301);
            // What it lists is what it keeps, and what it makes up it keeps.
            let peer = Peer::of(&three.only(server), "10.5555/").unwrap();
            let mut admin = Administrator::new(peer, identity.clone());
            let minted = runtime.block_on(admin.mint("10.5555/", &values)).unwrap().unwrap();
            assert_eq!(three.keeper(&minted), server, "{minted}");
            let mut listed = Vec::new();
            let each = |name: Handle<'_>| {
                listed.push(name.to_string());
                ControlFlow::Continue(())
            };
            runtime.block_on(admin.list_handles("10.5555", each)).unwrap();
            assert!(listed.contains(&minted) && listed.iter().all(|name| three.keeper(name) == server));
        }
    }
    for server in 0..3 {
        let (here, there) = (three.name_at(server, "http"), three.name_at((server + 1) % 3, "http"));
        let service = &three.services[server];
        assert_eq!(service.put(&here, "301%3A10.5555/ADMIN:opensesame"), (201, 1));
        assert_eq!(service.put(&there, "301%3A10.5555/ADMIN:opensesame").1, 301);
        assert_eq!(service.put(&here, "301%3A10.5555/ADMIN:wrong").0, 401);
        assert_eq!(service.put(&here, "301%3A10.5555/NONE:opensesame").0, 401);
    }
}

#[test]
fn who_may_not_may_not() {
    let (mut three, runtime) = (Three::start("name"), runtime());
    let keeper = three.keeper("10.5555/ADMIN");
    let other = (keeper + 1) % 3;
    let name = three.name_at(other, "denied");
    let peer = Peer::of(&three.root(), &name).unwrap();
    let url = [Value::new(1, "URL", "https://example.org/")];
    let refused = |identity: Identity| {
        code(runtime.block_on(Administrator::new(peer.clone(), identity).create(&name, &url)))
    };
    assert_eq!(refused(Identity::with_secret_key(301, "10.5555/ADMIN", b"wrong")), 403);
    assert_eq!(refused(Identity::with_secret_key(301, "10.5555/ONE", b"opensesame")), 400);
    assert_eq!(refused(Identity::with_secret_key(300, "10.5555/ADMIN", b"opensesame")), 403);
    let key = std::fs::read(vectors().join("privkey.bin")).unwrap();
    let stranger = Identity::with_key_file(300, "10.5555/ADMIN", &key, None).unwrap();
    assert_eq!(refused(stranger), 403);
    assert_eq!(three.services[other].ask(&name), [100, 100]);
    // Without the server that has the key nothing can be proved, and that is said.
    drop(three.services.remove(keeper));
    let [secret, ..] = identities();
    assert_eq!(refused(secret), 3);
}

#[test]
fn what_cannot_be_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (server, address) in [("one", "127.0.0.1:0"), ("two", "127.0.0.2:0"), ("all", "0.0.0.0:0")] {
        drop(Service::start(path, &["--data", server, "--native", address, "--http", "127.0.0.1:0"]));
    }
    let join = |parts: &[&str]| {
        let parts: Vec<_> = parts.iter().map(|part| format!("{part}/siteinfo.json")).collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        run(path, &[&["site", "join", "--json", "--into", "site.json"], &parts[..]].concat())
    };
    let refused = |parts: &[&str], expected: &str| {
        let (code, _, said) = join(parts);
        assert!(code == Some(2) && said.contains(expected), "{said}");
    };
    refused(&["one", "none"], "`none/siteinfo.json` is not there");
    refused(&["one", "two", "one"], "has a key that another server has");
    refused(&["one", "all"], "hint: set `native.public_address`");
    assert!(!path.join("site.json").exists());
    let site = |printed: &str| Site::from_json(printed.as_bytes()).unwrap();
    let first = site(&join(&["one", "two"]).1);
    let ids: Vec<u32> = first.servers.iter().map(|server| server.id).collect();
    assert_eq!((first.serial, ids), (2, vec![1, 2]));
    // The same again is the same; another order is another site.
    assert_eq!(site(&join(&["one", "two"]).1), first);
    let second = site(&join(&["two", "one"]).1);
    assert_eq!((second.serial, &second.servers[0].public_key), (3, &first.servers[1].public_key));

    let joined = ["--set", "native.site=site.json"];
    assert_eq!(site(&done(path, &[&["site", "show", "--data", "one"], &joined[..]].concat())), second);
    done(path, &[&["site", "export", "--data", "one", "a.zip"], &joined[..]].concat());
    let bundle = std::fs::read(path.join("a.zip")).unwrap();
    let has = |bytes: &[u8]| bundle.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"127.0.0.1") && has(b"127.0.0.2") && has(&second.to_bytes()));
    // Whose key is not in it is none of its servers.
    let native = ["serve", "--data", "all", "--native", "127.0.0.1:0", "--http", "off"];
    let (code, _, said) = run(path, &[&native[..], &joined].concat());
    assert!(code == Some(2) && said.contains("the site has 0 servers with our key"), "{said}");
    let memory = ["serve", "--store", "memory:", "--native", "127.0.0.1:0", "--http", "off"];
    let (code, _, said) = run(path, &[&memory[..], &joined].concat());
    assert!(code == Some(2) && said.contains("has no key that stays"), "{said}");
}
