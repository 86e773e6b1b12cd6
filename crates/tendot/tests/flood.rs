//! A flood of datagrams with forged senders, in network namespaces of its own: what goes out stays bounded, memory stays
//! what it is, and others are answered.
//!
//! Needs root, as namespaces do; without, there is nothing to be tried.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "those inside tell those outside; and what was measured"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tendot_proto::{Handle, Message, Now};

const SERVER: &str = "192.0.2.1:2641";

/// What tells this program, started inside of a namespace, that it is the attacker, or somebody else.
const ROLE: &str = "FLOOD_ROLE";

/// Two namespaces with a wire between them; in the second, a fourth of all addresses are its own.
struct Wire {
    server: String,
    attacker: String,
}

impl Wire {
    fn new() -> Self {
        let name = |end: &str| format!("tendot-{}-{end}", std::process::id());
        let wire = Self { server: name("server"), attacker: name("attacker") };
        let (server, attacker) = (&*wire.server, &*wire.attacker);
        ip(&["netns", "add", server]);
        ip(&["netns", "add", attacker]);
        ip(&["-n", server, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", attacker]);
        for (namespace, address) in [(server, "192.0.2.1/24"), (attacker, "192.0.2.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", "wire"]);
            ip(&["-n", namespace, "link", "set", "wire", "up"]);
            ip(&["-n", namespace, "link", "set", "lo", "up"]);
        }
        ip(&["-n", attacker, "route", "add", "local", "64.0.0.0/2", "dev", "lo"]);
        ip(&["-n", server, "route", "add", "64.0.0.0/2", "via", "192.0.2.2"]);
        wire
    }

    fn inside(namespace: &str, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        command
    }

    /// This program in the other namespace, as somebody.
    fn play(&self, role: &str) -> Child {
        Self::inside(&self.attacker, &std::env::current_exe().unwrap())
            .args(["--exact", "played_in_a_namespace", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Bytes that the server has taken and sent.
    fn bytes(&self) -> (u64, u64) {
        let read = |counter: &str| {
            let path = format!("/sys/class/net/wire/statistics/{counter}");
            let output = Self::inside(&self.server, Path::new("cat")).arg(path).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        (read("rx_bytes"), read("tx_bytes"))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.attacker] {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().unwrap().success(), "ip {arguments:?}");
}

struct Server(Child);

impl Server {
    fn start(wire: &Wire, directory: &Path) -> Self {
        let mut process = Wire::inside(&wire.server, Path::new(env!("CARGO_BIN_EXE_tendot")))
            .current_dir(directory)
            .args(["serve", "--http", "off", "--native", SERVER])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        said.map_while(Result::ok).find(|line| line.starts_with("ready: ")).expect("it is ready");
        Self(process)
    }

    /// Megabytes of memory.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn question(name: &str) -> Vec<u8> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Message::resolution(Handle::from(name), 7, Now { elapsed: Duration::ZERO, unix }).to_bytes().unwrap()
}

/// The parts of those inside the namespace.
#[test]
fn played_in_a_namespace() {
    match std::env::var(ROLE).as_deref() {
        // All of one network, for a large record.
        Ok("victim") => flood("10.5555/LARGE", |number| Ipv4Addr::from_bits(0x4d00_0000 | (number % 256))),
        // From everywhere.
        Ok("everywhere") => {
            flood("10.5555/DEMO", |number| {
                Ipv4Addr::from_bits(0x4000_0000 | (number.wrapping_mul(0x9e37_79b1) >> 2))
            });
        }
        Ok("client") => ask(),
        _ => {}
    }
}

fn flood(name: &str, source: impl Fn(u32) -> Ipv4Addr) {
    let (question, server) = (question(name), SERVER.parse::<SocketAddr>().unwrap());
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < Duration::from_secs(6) {
        number += 1;
        let Ok(socket) = UdpSocket::bind((source(number), 0)) else { continue };
        for _ in 0..8 {
            let _ = socket.send_to(&question, server);
        }
    }
    println!("{} sent", number * 8);
}

/// A client as the deployed one: a datagram, and again after half a second, a second, and one and a half; then a connection.
fn ask() {
    let question = question("10.5555/DEMO");
    let (mut asked, mut answered) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        asked += 1;
        let socket = UdpSocket::bind("192.0.2.2:0").unwrap();
        socket.connect(SERVER).unwrap();
        let by_datagram = [500, 1_000, 1_500].into_iter().any(|wait| {
            socket.set_read_timeout(Some(Duration::from_millis(wait))).unwrap();
            socket.send(&question).is_ok() && socket.recv(&mut [0; 600]).is_ok()
        });
        let by_connection = || {
            let mut stream =
                TcpStream::connect_timeout(&SERVER.parse().unwrap(), Duration::from_secs(1)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.write_all(&question).ok()?;
            stream.read(&mut [0; 600]).ok().filter(|length| *length > 0)
        };
        answered += u32::from(by_datagram || by_connection().is_some());
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("asked {asked} answered {answered}");
}

fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn attack_u1_u2_forged_senders() {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    assert!(is_root, "namespaces need root: run this test as root");
    if Command::new("ip").arg("-V").output().is_err() {
        assert!(Command::new("apt-get").args(["install", "-y", "iproute2"]).status().unwrap().success());
    }
    let directory = tempfile::tempdir().unwrap();
    let tendot = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
        command.current_dir(directory.path());
        command
    };
    let large = format!(
        r#"{{"handle":"10.5555/LARGE","values":[{{"index":1,"type":"DESC","data":"{}"}}]}}"#,
        "x".repeat(10_000)
    );
    let small =
        r#"{"handle":"10.5555/DEMO","values":[{"index":1,"type":"URL","data":"https://example.org/"}]}"#;
    std::fs::write(directory.path().join("records.jsonl"), format!("{large}\n{small}\n")).unwrap();
    assert!(tendot().args(["import", "records.jsonl"]).output().unwrap().status.success());
    let wire = Wire::new();
    let server = Server::start(&wire, directory.path());
    assert!(said(wire.play("client")).contains("answered"));
    let before = server.memory();

    // Somebody wants to have a network flooded: 32 times what an address may have, and three times what came.
    let (took, sent) = wire.bytes();
    let attack = wire.play("victim");
    let client = wire.play("client");
    let (attack, client) = (said(attack), said(client));
    let (taken, answered) = (wire.bytes().0 - took, wire.bytes().1 - sent);
    let allowed = 32 * (1_000 + 200 * 7) * 560 + 3 * taken;
    eprintln!("a network: {}, {taken} bytes in, {answered} bytes out", line(&attack, "sent"));
    assert!(taken > 1_000_000, "it was a flood");
    assert!(answered < allowed, "{answered} bytes for {taken}, {allowed} are allowed");
    check_client(&client);

    let attack = wire.play("everywhere");
    let client = wire.play("client");
    let (attack, client) = (said(attack), said(client));
    eprintln!("everywhere: {}; memory {before:.1} MB, then {:.1} MB", line(&attack, "sent"), server.memory());
    check_client(&client);
    assert!(server.memory() < before + 12.0, "{before} MB, then {} MB", server.memory());
}

fn line<'s>(said: &'s str, word: &str) -> &'s str {
    said.lines().find(|line| line.contains(word)).unwrap_or_default()
}

/// Nine of ten are answered.
fn check_client(client: &str) {
    let numbers: Vec<u32> = line(client, "asked").split(' ').filter_map(|word| word.parse().ok()).collect();
    let [asked, answered] = numbers[..] else { panic!("{client}") };
    eprintln!("others: {answered} of {asked} were answered");
    assert!(asked > 0 && answered * 10 >= asked * 9, "{answered} of {asked}");
}
