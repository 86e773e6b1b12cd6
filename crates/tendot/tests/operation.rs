//! The service as an operator runs it: settings, attacks from another process, signals, systemd, logs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

struct Service {
    process: Child,
    addresses: Vec<String>,
    /// All that it says on stderr, line by line.
    said: Receiver<String>,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let ready = said.iter().find(|line| line.starts_with("ready: ")).expect("it is ready");
        let addresses = ready["ready: ".len()..].split(' ').map(str::to_owned).collect();
        Self { process, addresses, said }
    }

    fn address(&self) -> SocketAddr {
        let address = self.addresses[0].split_once("://").unwrap().1;
        address.trim_end_matches('/').parse().unwrap()
    }

    fn get(&self, target: &str) -> std::io::Result<String> {
        ask(&mut TcpStream::connect(self.address())?, target)
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Seconds of processor time.
    fn busy(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
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

fn serve(directory: &Path, arguments: &[&str]) -> Service {
    let fixed = ["serve", "--demo", "--store", "memory:", "--native", "off", "--http", "127.0.0.1:0"];
    Service::start(tendot(directory).args(fixed).args(arguments))
}

/// The head of the answer, on a connection that is kept.
fn ask(stream: &mut TcpStream, target: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    // In one piece: the rest would wait for the first one's receipt.
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = vec![0; 64 << 10];
    let read = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn settings_are_shown_with_their_origin() {
    let directory = tempfile::tempdir().unwrap();
    let run =
        |arguments: &[&str]| output(tendot(directory.path()).args(arguments).env("TENDOT_LOG_LEVEL", "warn"));
    assert_eq!(run(&["config", "init", "t.toml"]).0, Some(0));
    assert_eq!(run(&["config", "init", "t.toml"]).0, Some(2));
    assert_eq!(run(&["config", "check", "t.toml"]).0, Some(0));
    assert_eq!(run(&["config", "check", "none.toml"]).0, Some(2));
    std::fs::write(directory.path().join("t.toml"), "[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n").unwrap();
    let (code, shown, _) = run(&["config", "show", "--config", "t.toml", "--set", "rate.enabled=false"]);
    assert_eq!(code, Some(0));
    let line = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("http.trusted_proxies").starts_with("http.trusted_proxies = [\"10.0.0.0/8\"]"));
    assert!(line("http.trusted_proxies").ends_with("# t.toml:2"));
    assert!(line("log.level").ends_with("# TENDOT_LOG_LEVEL"));
    assert!(line("rate.enabled").ends_with("# --set"));
    assert!(line("data").ends_with("# default"));
    let (_, json, _) = run(&["config", "show", "--json"]);
    let level = json.lines().find(|line| line.contains("log.level")).unwrap();
    assert_eq!(level, r#"{"key":"log.level","value":"warn","origin":"variable","place":"TENDOT_LOG_LEVEL"}"#);

    std::fs::write(directory.path().join("t.toml"), "\n[htpp]\naddress = \"off\"\n").unwrap();
    let told = "error: t.toml:3: `htpp.address` is no setting; `http.address` is";
    let (code, _, said) = run(&["config", "check", "t.toml"]);
    assert!(code == Some(1) && said.starts_with(told), "{said}");
    let (code, _, said) = run(&["serve", "--config", "t.toml"]);
    assert!(code == Some(2) && said.starts_with(told) && said.contains("hint:"), "{said}");
    let (code, _, said) = run(&["serve", "--http", "off", "--native", "off", "--store", "memory:"]);
    assert!(code == Some(2) && said.contains("nothing to listen to"), "{said}");
}

/// Five hundred connections that send a byte a second; another client does not notice.
#[test]
fn attack_h10_five_hundred_slow_clients() {
    let directory = tempfile::tempdir().unwrap();
    let service = serve(directory.path(), &["--set", "http.limits.header_time=4s"]);
    let address = service.address();
    let mut slow: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(address).unwrap()).collect();
    let stop = Instant::now() + Duration::from_secs(7);
    let trickle = std::thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: somewhere\r\n" {
            slow.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
            if Instant::now() > stop {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        slow.len()
    });
    let mut stream = TcpStream::connect(address).unwrap();
    let mut took = Vec::new();
    while Instant::now() < stop {
        let begun = Instant::now();
        assert!(ask(&mut stream, "/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
        took.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    took.sort();
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 < Duration::from_millis(50), "{p99:?} of {}", took.len());
    assert_eq!(trickle.join().unwrap(), 0, "some are still there");
}

/// Without room for further connections it waits, and does not spin; with room again, it answers.
#[test]
fn attack_s11_no_room_for_connections() {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_tendot");
    let line = format!("ulimit -n 64; exec {program} serve --demo --store memory: --http 127.0.0.1:0");
    let service = Service::start(Command::new("sh").args(["-c", &line]).current_dir(directory.path()));
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(service.address()).unwrap()).collect();
    let before = service.busy();
    std::thread::sleep(Duration::from_secs(2));
    assert!(service.busy() - before < 0.5, "{} s", service.busy() - before);
    drop(crowd);
    assert!(service.get("/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
    let told = service.said.try_iter().filter(|line| line.contains("connections can't be taken")).count();
    assert!((1..=3).contains(&told), "told {told} times");
}

#[test]
fn attack_s12_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = serve(directory.path(), &[]);
    let mut stream = TcpStream::connect(service.address()).unwrap();
    assert!(ask(&mut stream, "/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
    // A request that is under way: its head has begun.
    stream.write_all(b"GET /10.5555/DEMO HTTP/1.1\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    service.signal("-TERM");
    std::thread::sleep(Duration::from_millis(300));
    stream.write_all(b"Host: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 302") && answer.contains("connection: close"), "{answer}");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// What was counted of resolutions is there after a restart, also if the end comes in the middle of them.
#[test]
fn counts_survive_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let arguments = ["serve", "--native", "off", "--http", "127.0.0.1:0", "--set", "reports.interval=1h"];
        Service::start(tendot(directory.path()).args(arguments))
    };
    let mut service = start();
    let token = std::fs::read_to_string(directory.path().join("tendot-data/operator.token")).unwrap();
    let api = |service: &Service, method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let (token, length) = (token.trim(), body.len());
        write!(
            stream,
            "{method} /api/v1/{path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    api(&service, "POST", "agencies", r#"{"code":"A","name":"A"}"#);
    let made = api(&service, "POST", "registrants", r#"{"agency":"A","name":"B"}"#);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    api(&service, "POST", "prefixes", &format!(r#"{{"registrant":{},"prefix":"10.70000"}}"#, made["id"]));
    api(&service, "POST", "dois", r#"{"name":"10.70000/x","url":"https://example.org/"}"#);
    let address = service.address();
    let asking: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let Ok(mut stream) = TcpStream::connect(address) else { return (0, 0) };
                let (mut asked, mut answered) = (0_u64, 0_u64);
                loop {
                    asked += 1;
                    match ask(&mut stream, "/10.70000/x") {
                        Ok(answer) if answer.starts_with("HTTP/1.1 302") => answered += 1,
                        _ => return (asked, answered),
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    service.signal("-TERM");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
    let sums = asking.into_iter().map(|thread| thread.join().unwrap());
    let (asked, answered) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let report = api(&start(), "GET", "reports/10.70000/resolved", "");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let counted = report["count"].as_u64().unwrap();
    // Who asked at the very end may have got no answer.
    assert!(answered > 100 && (answered..=asked).contains(&counted), "{answered} {counted} {asked}");
}

#[test]
fn attack_s12_a_client_that_never_ends_does_not_hold_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = serve(directory.path(), &["--set", "http.limits.closing_time=2s"]);
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream
        .write_all(b"PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n")
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    service.signal("-TERM");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn systemd_hands_over_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let ear = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    ear.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let hear = || {
        let mut heard = [0; 64];
        let length = ear.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The shell puts the socket where systemd does, and tells the process its own number.
    let line = format!(
        "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http exec {} serve --demo --store memory:",
        env!("CARGO_BIN_EXE_tendot")
    );
    let mut service = Service::start(
        Command::new("sh")
            .args(["-c", &line])
            .current_dir(directory.path())
            .env("NOTIFY_SOCKET", directory.path().join("notify"))
            .stdin(OwnedFd::from(socket)),
    );
    assert_eq!(service.address(), address);
    assert!(service.get("/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
    assert_eq!(hear(), "READY=1");
    service.signal("-TERM");
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

/// Twice: what the first leaves of the sockets is what the second gets.
#[test]
fn systemd_hands_over_native_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    let command = |names: &str, count: u32| {
        let line = format!(
            "exec 3<&0 4<&1 0</dev/null 1>/dev/null; LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} \
             exec {} serve --demo --store memory: --http 127.0.0.1:0",
            env!("CARGO_BIN_EXE_tendot")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(directory.path());
        command.stdin(OwnedFd::from(tcp.try_clone().unwrap()));
        command.stdout(OwnedFd::from(udp.try_clone().unwrap()));
        command
    };
    for _ in 0..2 {
        let mut service = Service::start(&mut command("native:native", 2));
        assert!(service.get("/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
        for way in ["--udp", "--tcp"] {
            let server = format!("hdl://{address}");
            let asked = Command::new(env!("CARGO_BIN_EXE_tendot"))
                .args(["resolve", "--server", &server, way, "10.5555/DEMO"])
                .output()
                .unwrap();
            assert!(asked.status.success(), "{way}: {}", String::from_utf8_lossy(&asked.stderr));
        }
        service.signal("-TERM");
        assert_eq!(service.process.wait().unwrap().code(), Some(0));
    }
    let output = command("native", 1).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("two sockets `native`, or none"), "{said}");
}

/// A secret that is sent, and text that could steer a terminal, are in no line of the log.
#[test]
fn attack_o3_the_log_has_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    for format in ["json", "text"] {
        let format = format!("log.format={format}");
        let arguments = ["--set", "log.requests=true", "--set", "log.level=trace", "--set", &format];
        let mut service = serve(directory.path(), &arguments);
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let said = "PUT /api/handles/10.5555/X%1B%5B2J?secret=canary HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer canary\r\n\
                    Cookie: canary\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";
        stream.write_all(said.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned();
        service.signal("-TERM");
        service.process.wait().unwrap();
        let lines: Vec<String> = service.said.iter().collect();
        let line = lines.iter().find(|line| line.contains(&id)).expect("a line for the request");
        assert!(line.contains("10.5555/X%1B%5B2J") && line.contains("401"), "{line}");
        assert!(!lines.iter().any(|line| line.contains("canary") || line.contains('\x1B')), "{lines:?}");
        if format.ends_with("json") {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&json["method"], &json["status"]), (&"PUT".into(), &401.into()));
        }
    }
}

/// Nobody reads what it says: it goes on.
#[test]
fn attack_s13_a_closed_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = serve(directory.path(), &["--set", "log.requests=true"]);
    service.said = channel().1;
    for _ in 0..50 {
        assert!(service.get("/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
    }
    std::thread::sleep(Duration::from_millis(200));
    let metrics = service.get("/metrics").unwrap();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("tendot_log_dropped_total ")).unwrap();
    assert!(lost.parse::<f64>().unwrap() > 1.0, "{lost}");
}

#[test]
fn both_doors_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(directory.path().join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    let arguments = [
        "--https",
        "127.0.0.1:0",
        "--set",
        "http.tls.certificate=certificate.pem",
        "--set",
        "http.tls.key=key.pem",
    ];
    // The key can be read by everybody.
    let (code, _, said) = output(
        tendot(directory.path())
            .args(["serve", "--store", "memory:", "--native", "off", "--http", "off"])
            .args(arguments),
    );
    assert!(code == Some(2) && said.contains("chmod 600"), "{said}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(directory.path().join("key.pem"), mode).unwrap();
    let service = serve(directory.path(), &arguments);
    assert!(service.addresses[0].starts_with("http://") && service.addresses[1].starts_with("https://"));
    assert!(service.get("/10.5555/DEMO").unwrap().starts_with("HTTP/1.1 302"));
    let metrics = service.get("/metrics").unwrap();
    assert!(metrics.contains("tendot_tls_certificate_expiry_timestamp_seconds "), "{metrics}");
    service.signal("-HUP");
    assert!(service.said.iter().any(|line| line.contains("the certificate was read again")));
}
