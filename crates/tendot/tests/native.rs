//! The native protocol of the real program: its key and site, its addresses, its end and the plug.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tendot_proto::auth::{Credentials, Policy};
use tendot_proto::crypto::{AwsLc, SystemRandom};
use tendot_proto::record::Site;
use tendot_proto::wire::List;
use tendot_proto::{Handle, Message, Now, Opcode, Parts, Request, Value, Work};

struct Service {
    process: Child,
    addresses: Vec<String>,
}

impl Service {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process =
            tendot(directory).arg("serve").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = said.map_while(Result::ok).find(|line| line.starts_with("ready: ")).expect("it is ready");
        let addresses = ready["ready: ".len()..].split(' ').map(str::to_owned).collect();
        Self { process, addresses }
    }

    fn address(&self, scheme: &str) -> SocketAddr {
        let address = self.addresses.iter().find_map(|address| address.strip_prefix(scheme)).unwrap();
        address.trim_end_matches('/').parse().unwrap()
    }

    fn native(&self) -> SocketAddr {
        self.address("hdl://")
    }

    /// The answer over a connection.
    fn ask(&self, message: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.native())?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(message)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if answer.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
    }

    fn resolve(&self, name: &str) -> u32 {
        code(&self.ask(&Message::resolution(Handle::from(name), 7, now()).to_bytes().unwrap()).unwrap())
    }

    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(self.address("http://")).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn end(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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

fn now() -> Now {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Now { elapsed: Duration::ZERO, unix }
}

fn code(answer: &[u8]) -> u32 {
    Message::from_bytes(answer).unwrap().header.response_code.0
}

const BOTH: [&str; 5] = ["--demo", "--http", "127.0.0.1:0", "--native", "127.0.0.1:0"];

#[test]
fn names_are_resolved_over_both_transports() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &BOTH);
    assert_eq!((service.resolve("10.5555/DEMO"), service.resolve("10.5555/NONE")), (1, 100));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let question = Message::resolution(Handle::from("10.5555/DEMO"), 7, now()).to_bytes().unwrap();
    socket.send_to(&question, service.native()).unwrap();
    let mut room = [0; 600];
    let (length, from) = socket.recv_from(&mut room).unwrap();
    assert_eq!((code(&room[..length]), from), (1, service.native()));
    assert!(service.get("/metrics").contains("tendot_native_requests_total{transport=\"udp\""));
    assert_eq!(service.end(), Some(0));
}

/// Where it was asked: else who asked would not take it for an answer.
#[test]
fn datagrams_come_from_where_it_was_asked() {
    for (everywhere, asked) in
        [("0.0.0.0:0", &["127.0.0.1", "127.0.0.2"][..]), ("[::]:0", &["127.0.0.1", "127.0.0.2", "::1"])]
    {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::start(directory.path(), &["--demo", "--http", "off", "--native", everywhere]);
        for at in asked {
            let at: IpAddr = at.parse().unwrap();
            let socket = UdpSocket::bind(if at.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let at = SocketAddr::new(at, service.native().port());
            let mut room = [0; 600];
            for _ in 0..4 {
                let question = Message::resolution(Handle::from("10.5555/DEMO"), 7, now());
                socket.send_to(&question.to_bytes().unwrap(), at).unwrap();
                let (length, from) = socket.recv_from(&mut room).unwrap();
                assert_eq!((code(&room[..length]), from), (1, at), "{everywhere}");
            }
        }
    }
}

#[test]
fn either_can_be_off() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &["--http", "off", "--native", "127.0.0.1:0", "--demo"]);
    assert_eq!(service.addresses.len(), 1);
    assert_eq!(service.resolve("10.5555/DEMO"), 1);
    assert_eq!(service.end(), Some(0));
    let service = Service::start(directory.path(), &["--http", "127.0.0.1:0", "--native", "off"]);
    assert_eq!(service.addresses.len(), 1);
    assert!(service.get("/api/site").starts_with("HTTP/1.1 404 "));
}

#[test]
fn the_key_and_the_site_are_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("tendot-data");
    let (code, _, said) = run(directory.path(), &["site", "show"]);
    assert!(code == Some(1) && said.contains("the first start of `tendot serve` makes it"), "{said}");
    let service = Service::start(directory.path(), &BOTH);
    let native = service.native().port();
    for file in ["privkey.bin", "pubkey.bin", "siteinfo.json"] {
        let mode = std::fs::metadata(data.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    let (code, shown, _) = run(directory.path(), &["site", "show", "--json"]);
    let first = Site::from_json(shown.as_bytes()).unwrap();
    assert_eq!((code, first.serial, shown.lines().count()), (Some(0), 1, 1));
    let ports: Vec<u32> = first.servers[0].interfaces.iter().map(|interface| interface.port).collect();
    let http = u32::from(service.address("http://").port());
    assert_eq!(ports, [native.into(), native.into(), http]);
    assert!(service.get("/api/site").contains(shown.trim()), "{shown}");
    assert_eq!(service.end(), Some(0));

    // The same again is the same; another description is another serial number, and the same key.
    let same = ["--http", &format!("127.0.0.1:{http}"), "--native", &format!("127.0.0.1:{native}")];
    assert_eq!(Service::start(directory.path(), &same).end(), Some(0));
    let shown = || Site::from_json(run(directory.path(), &["site", "show"]).1.as_bytes()).unwrap();
    assert_eq!(shown(), first);
    let other =
        [&same[..], &["--set", "native.description=here", "--set", "native.public_address=192.0.2.7"]]
            .concat();
    assert_eq!(Service::start(directory.path(), &other).end(), Some(0));
    let second = shown();
    assert_eq!((second.serial, second.description()), (2, Some("here")));
    assert_eq!(second.servers[0].ip().to_string(), "192.0.2.7");
    assert_eq!(second.servers[0].public_key, first.servers[0].public_key);

    // Others may not read the key.
    std::fs::set_permissions(data.join("privkey.bin"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, said) = run(directory.path(), &[&["serve"][..], &BOTH].concat());
    assert!(code == Some(2) && said.contains("hint: chmod 600"), "{said}");
    std::fs::set_permissions(data.join("privkey.bin"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(data.join("privkey.bin"), "no key").unwrap();
    let (code, _, said) = run(directory.path(), &[&["serve"][..], &BOTH].concat());
    assert!(code == Some(2) && said.contains("privkey.bin` can't be used"), "{said}");
}

#[test]
fn what_a_prefix_registry_asks_for() {
    let directory = tempfile::tempdir().unwrap();
    let everywhere = ["--http", "off", "--native", "0.0.0.0:0"];
    assert_eq!(Service::start(directory.path(), &everywhere).end(), Some(0));
    let (code, _, said) = run(directory.path(), &["site", "export"]);
    assert!(code == Some(2) && said.contains("hint: set `native.public_address`"), "{said}");
    let reached = [&everywhere[..], &["--set", "native.public_address=192.0.2.7"]].concat();
    assert_eq!(Service::start(directory.path(), &reached).end(), Some(0));
    let (code, shown, said) = run(
        directory.path(),
        &["site", "export", "b.zip", "--json", "--contact", "Ada \"L\"", "--email", "a@b.c"],
    );
    assert!(code == Some(0) && said.contains("keep `tendot-data/admpriv.bin` safe"), "{said}");
    let contents =
        r#"{"file":"b.zip","contents":["siteinfo.json","siteinfo.bin","admpub.bin","contactdata.dct"]}"#;
    assert_eq!(shown.trim(), contents);
    let bundle = std::fs::read(directory.path().join("b.zip")).unwrap();
    let has = |bytes: &[u8]| bundle.windows(bytes.len()).any(|window| window == bytes);
    assert!(bundle.starts_with(b"PK\x03\x04") && has(b"\"name\" = \"Ada \\\"L\\\"\""));
    assert!(has(&std::fs::read(directory.path().join("tendot-data/admpub.bin")).unwrap()));
    let private = std::fs::read(directory.path().join("tendot-data/admpriv.bin")).unwrap();
    assert!(!has(&private[private.len() - 100..]));
    // Again, with the same key.
    let (code, _, said) = run(directory.path(), &["site", "export", "c.zip"]);
    assert!(code == Some(0) && !said.contains("admpriv"), "{said}");
    let site = |file: &str| std::fs::read(directory.path().join(file)).unwrap()[..1_500].to_vec();
    assert_eq!(site("b.zip"), site("c.zip"));
}

#[test]
fn a_port_that_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for port in [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()] {
        let address = format!("127.0.0.1:{port}");
        let (code, _, said) = run(directory.path(), &["serve", "--http", "off", "--native", &address]);
        assert_eq!(code, Some(2));
        assert!(said.contains(&format!("{address} can't be listened to")), "{said}");
        assert!(said.contains("hint: another handle server may be running"), "{said}");
    }
    let taken = Service::start(directory.path(), &["--http", "off", "--native", "127.0.0.1:0"]);
    let other = tempfile::tempdir().unwrap();
    let (code, ..) = run(other.path(), &["serve", "--http", "off", "--native", &taken.native().to_string()]);
    assert_eq!(code, Some(2), "two of us do not share a port");
}

#[test]
fn the_end_does_not_wait_for_who_asks_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &BOTH);
    let idle: Vec<_> = (0..20).map(|_| TcpStream::connect(service.native()).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(service.end(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(idle);
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net")
}

/// Creates a name by the secret key of `301:10.5555/ADMIN`; the code.
fn create(service: &Service, name: &str) -> std::io::Result<u32> {
    let values = [Value::new(1, "URL", "https://example.org/")];
    let request = Request::Values { handle: Handle::from(name), values: List::from(&values[..]) };
    let request = Message::request(Opcode::CREATE_HANDLE, request, 7, now()).to_bytes().unwrap();
    let challenge = service.ask(&request)?;
    let (parts, challenge) = (Parts::split(&request).unwrap(), Message::from_bytes(&challenge).unwrap());
    let credentials = Credentials::SecretKey(b"opensesame");
    let work = &mut { Work::REQUEST };
    let proof =
        credentials.answer(&parts, &challenge, &Policy::default(), &AwsLc, &mut SystemRandom, work).unwrap();
    let answer = Request::ChallengeAnswer {
        auth_type: credentials.auth_type(),
        key_handle: Handle::from("10.5555/ADMIN"),
        key_index: 301,
        answer: &proof,
    };
    let mut answer = Message::request(Opcode::CHALLENGE_RESPONSE, answer, 8, now());
    answer.envelope.session_id = challenge.envelope.session_id;
    Ok(code(&service.ask(&answer.to_bytes().unwrap())?))
}

/// What was acknowledged is there after the plug was pulled.
#[test]
fn acknowledged_names_survive_the_plug() {
    let directory = tempfile::tempdir().unwrap();
    let records = vectors().join("records.jsonl");
    assert_eq!(run(directory.path(), &["import", records.to_str().unwrap()]).0, Some(0));
    let mut made: Vec<String> = Vec::new();
    for round in 0..3 {
        let mut service = Service::start(directory.path(), &["--http", "off", "--native", "127.0.0.1:0"]);
        for name in &made {
            assert_eq!(service.resolve(name), 1, "{name}");
        }
        let id = service.process.id().to_string();
        let plug = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
        });
        for number in 0.. {
            let name = format!("10.5555/PLUG-{round}-{number}");
            match create(&service, &name) {
                Ok(code) => assert_eq!(code, 1, "{name}"),
                Err(_) => break,
            }
            made.push(name);
        }
        plug.join().unwrap();
        service.process.wait().unwrap();
    }
    assert!(made.len() > 10, "{}", made.len());
}
