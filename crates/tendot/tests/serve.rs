//! The service from outside: the real program, real connections, and the plug.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A service that runs, and is killed when it is no longer needed.
struct Service {
    process: Child,
    address: SocketAddr,
    token: String,
}

impl Service {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process = tendot(directory)
            .args(["serve", "--native", "off", "--http", "127.0.0.1:0"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = said.map(Result::unwrap).find(|line| line.starts_with("ready")).expect("it is ready");
        let address = ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
        let token = std::fs::read_to_string(directory.join("tendot-data/operator.token")).unwrap_or_default();
        Self { process, address, token: token.trim().to_owned() }
    }

    /// An answer's status, head and body.
    fn ask(&self, method: &str, target: &str, body: &str) -> std::io::Result<(u16, String, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        self.ask_on(&mut stream, method, target, body)
    }

    /// The same on a connection that is kept.
    fn ask_on(
        &self,
        stream: &mut TcpStream,
        method: &str,
        target: &str,
        body: &str,
    ) -> std::io::Result<(u16, String, String)> {
        let length = body.len();
        let token = &self.token;
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )?;
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.trim().parse().unwrap()];
        if method != "HEAD" {
            reader.read_exact(&mut body)?;
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok((status, head, String::from_utf8(body).unwrap()))
    }

    fn put(&self, stream: &mut TcpStream, name: &str, address: &str) -> std::io::Result<u16> {
        let body = format!(r#"[{{"index":1,"type":"URL","data":"{address}"}}]"#);
        self.ask_on(stream, "PUT", &format!("/api/handles/{name}"), &body).map(|(status, ..)| status)
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

/// Two programs, one of which has the records that the other is asked for; and the doctor, who asks the same.
#[test]
fn names_of_another_service() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keeper = Service::start(there.path(), &["--demo"]);
    let base = format!("http://{}", keeper.address);
    let file = here.path().join("tendot.toml");
    std::fs::write(&file, format!("upstream = \"{base}\"\n[cache]\nsize = \"1MiB\"\n")).unwrap();
    let service = Service::start(here.path(), &["--config", "tendot.toml"]);
    let (status, head, _) = service.ask("GET", "/10.5555/DEMO", "").unwrap();
    assert!(status == 302 && head.contains("location: https://example.org/\r\n"), "{head}");
    let doctor = || {
        let output = tendot(here.path()).args(["doctor", "10.5555/demo", "--config", "tendot.toml"]).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = doctor();
    assert!(
        code == Some(0) && said.contains(&format!("ok      upstream  {base} was asked just now")),
        "{said}"
    );
    drop(keeper);
    // What it kept is still there for those who ask it; the doctor kept nothing.
    assert_eq!(service.ask("GET", "/10.5555/DEMO", "").unwrap().0, 302);
    assert_eq!(service.ask("GET", "/10.5555/OTHER", "").unwrap().0, 502);
    let (code, said) = doctor();
    assert!(
        code == Some(2) && said.contains(&format!("not ok  upstream  {base} can't be reached")),
        "{said}"
    );
}

#[test]
fn a_newcomer_finds_the_demo() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path(), &["--demo"]);
    let location = |target: &str| {
        let (status, head, _) = service.ask("GET", target, "").unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("location: "));
        (status, location.unwrap_or_default().to_owned())
    };
    assert_eq!(location("/10.5555/demo"), (302, "https://example.org/".into()));
    assert_eq!(location("/10.5555/DEMO-ALIAS?x=y"), (301, "/10.5555/DEMO?x=y".into()));
    assert_eq!(
        location("/10.5555/DEMO-COPIES?locatt=country:gb"),
        (302, "https://example.net/copies/2".into())
    );
    let pasted = "/?text=Doe%2C+J.+A+first+record.+https%3A%2F%2Fdoi.org%2F10.5555%2FDEMO.";
    assert_eq!(location(pasted), (303, "/10.5555/DEMO".into()));
    assert_eq!(location("/10.5555/none").0, 404);
    assert_eq!(location("/readyz").0, 200);
    let (status, _, body) = service.ask("HEAD", "/10.5555/demo", "").unwrap();
    assert_eq!((status, body.trim_matches('\0')), (302, ""));
    // Asked to end, it ends.
    let id = service.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[test]
fn who_may_write() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path(), &["--demo"]);
    let write = |service: &Service| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        service.put(&mut stream, "10.5555/NEW", "https://example.org/new").unwrap()
    };
    let right = std::mem::replace(&mut service.token, "wrong".into());
    assert_eq!(write(&service), 401);
    service.token = right;
    assert_eq!(write(&service), 201);
    assert_eq!(write(&service), 200);
    let mode = std::fs::metadata(directory.path().join("tendot-data/operator.token")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
}

#[test]
fn a_second_service_is_told_who_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &[]);
    let second = tendot(directory.path())
        .args(["serve", "--native", "off", "--http", "127.0.0.1:0"])
        .output()
        .unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(said.contains(&format!("in use by process {}", service.process.id())), "{said}");
    assert!(said.contains("hint:"), "{said}");
    let import = tendot(directory.path()).args(["import", "-"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(import.status.code(), Some(2));
}

/// Killed with `kill -9` under load, again and again: everything that it said to have written resolves.
#[test]
fn acknowledged_records_resolve_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..5_u64 {
        let mut service = Service::start(directory.path(), &["--demo"]);
        let written = Mutex::new(Vec::new());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let (service, written, stop) = (&service, &written, &stop);
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(service.address).unwrap();
                    for number in 0.. {
                        let name = format!("10.5555/W{writer}-{}", number % 40);
                        let address = format!("https://example.org/{round}/{number}");
                        match service.put(&mut stream, &name, &address) {
                            Ok(200 | 201) => written.lock().unwrap().push((name, address)),
                            Ok(status) => panic!("{name}: {status}"),
                            Err(_) => break,
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            // Copies are made meanwhile.
            if round == 0 {
                let export = tendot(directory.path()).arg("export").output().unwrap();
                assert!(export.status.success());
                let backup = tendot(directory.path()).args(["backup", "copy"]).output().unwrap();
                assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
            }
            // However slow the machine is, there is something to be lost.
            let begin = Instant::now();
            while written.lock().unwrap().len() < 30 && begin.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(round * 37));
            let id = service.process.id().to_string();
            assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
            stop.store(true, Ordering::Relaxed);
        });
        service.process.wait().unwrap();
        let written = written.into_inner().unwrap();
        assert!(written.len() > 20, "only {} in round {round}", written.len());
        acknowledged.extend(written);
        check(directory.path(), &acknowledged);
    }
    // The copy that was made under load is a store.
    let restored = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    let restore = tendot(restored.path()).arg("restore").arg(&copy).output().unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    assert!(tendot(restored.path()).arg("verify").output().unwrap().status.success());
}

fn check(directory: &Path, acknowledged: &BTreeMap<String, String>) {
    let started = Instant::now();
    let service = Service::start(directory, &[]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let mut stream = TcpStream::connect(service.address).unwrap();
    for (name, address) in acknowledged {
        let (status, head, _) = service.ask_on(&mut stream, "GET", &format!("/{name}"), "").unwrap();
        let found = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default();
        // What was under way when the plug was pulled may be there, too.
        let number = |address: &str| -> Vec<u64> {
            address.split('/').skip(3).map(|part| part.parse().unwrap_or_default()).collect()
        };
        assert!(status == 302 && number(found) >= number(address), "{name}: {status} {found}, not {address}");
    }
    let verify = tendot(directory).arg("verify").output().unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
}
