//! UDP flood with spoofed sources: responses and memory stay bounded, and other clients are served.
//!
//! Server and attacker have network namespaces of their own, which need root.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "processes in the namespace report to the test, which prints its measurements"
)]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tendot_testing::{anonymous_memory, install_packages, repetitions, run_checked};

use super::native::resolution;
use crate::support::{TENDOT, TestDir, TestServer};

const SERVER: &str = "192.0.2.1:2641";

/// Environment variable with the role of this program when it is started in a namespace.
const ROLE_ENV: &str = "TENDOT_TEST_FLOOD_ROLE";

/// Duration of each flood.
fn flood_seconds() -> u64 {
    repetitions("TENDOT_TEST_FLOOD_SECONDS", 2, 6)
}

/// Two network namespaces joined by a veth pair; in the second, a fourth of all IPv4 addresses are local.
struct NetworkPair {
    server: String,
    attacker: String,
}

impl NetworkPair {
    fn new() -> Self {
        let name = |end: &str| format!("tendot-{}-{end}", std::process::id());
        let network = Self { server: name("server"), attacker: name("attacker") };
        let (server, attacker) = (&*network.server, &*network.attacker);
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
        network
    }

    /// Starts this program in the attacker's namespace, in a role of [`namespace_process`].
    fn spawn(&self, role: &str) -> Child {
        in_namespace(&self.attacker, std::env::current_exe().unwrap().to_str().unwrap())
            .args(["--exact", "serve::udp_flood::namespace_process", "--nocapture"])
            .env(ROLE_ENV, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Bytes that the server has received and sent.
    fn bytes(&self) -> (u64, u64) {
        let read = |counter: &str| {
            let path = format!("/sys/class/net/wire/statistics/{counter}");
            run_checked(in_namespace(&self.server, "cat").arg(path)).trim().parse().unwrap()
        };
        (read("rx_bytes"), read("tx_bytes"))
    }
}

impl Drop for NetworkPair {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.attacker] {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
    }
}

fn in_namespace(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

fn ip(arguments: &[&str]) {
    run_checked(Command::new("ip").args(arguments));
}

/// Does nothing unless [`attack_u1_u2_spoofed_sources`] starts it in a namespace.
#[test]
fn namespace_process() {
    match std::env::var(ROLE_ENV).as_deref() {
        // Requests for a large record, all from one network.
        Ok("victim") => flood("10.5555/LARGE", |number| Ipv4Addr::from_bits(0x4d00_0000 | (number % 256))),
        // Requests from everywhere.
        Ok("everywhere") => {
            flood("10.5555/DEMO", |number| {
                Ipv4Addr::from_bits(0x4000_0000 | (number.wrapping_mul(0x9e37_79b1) >> 2))
            });
        }
        Ok("client") => send_requests(),
        _ => {}
    }
}

fn flood(name: &str, source: impl Fn(u32) -> Ipv4Addr) {
    let (request, server) = (resolution(name), SERVER.parse::<SocketAddr>().unwrap());
    let (begin, duration) = (Instant::now(), Duration::from_secs(flood_seconds()));
    let mut number = 0;
    while begin.elapsed() < duration {
        number += 1;
        let Ok(socket) = UdpSocket::bind((source(number), 0)) else { continue };
        for _ in 0..8 {
            let _ = socket.send_to(&request, server);
        }
    }
    println!("{} sent", number * 8);
}

/// Resolves like deployed clients: a datagram, repeated after half a second, a second, and one and a half; then a connection.
fn send_requests() {
    let request = resolution("10.5555/DEMO");
    let (mut sent, mut answered) = (0, 0);
    let (begin, duration) = (Instant::now(), Duration::from_secs(flood_seconds()));
    while begin.elapsed() < duration {
        sent += 1;
        let socket = UdpSocket::bind("192.0.2.2:0").unwrap();
        socket.connect(SERVER).unwrap();
        let by_datagram = [500, 1_000, 1_500].into_iter().any(|wait| {
            socket.set_read_timeout(Some(Duration::from_millis(wait))).unwrap();
            socket.send(&request).is_ok() && socket.recv(&mut [0; 600]).is_ok()
        });
        let by_connection = || {
            let mut stream =
                TcpStream::connect_timeout(&SERVER.parse().unwrap(), Duration::from_secs(1)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.write_all(&request).ok()?;
            stream.read(&mut [0; 600]).ok().filter(|length| *length > 0)
        };
        answered += u32::from(by_datagram || by_connection().is_some());
        // An ordinary client, not another flood.
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("requests {sent} answered {answered}");
}

fn output(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn attack_u1_u2_spoofed_sources() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    assert!(is_root, "network namespaces need root: run this test as root");
    if Command::new("ip").arg("-V").output().is_err() {
        install_packages(&["iproute2"]);
    }
    let dir = TestDir::new();
    let record = |name: &str, kind: &str, data: &str| {
        json!({"handle": name, "values": [{"index": 1, "type": kind, "data": data}]}).to_string()
    };
    let large = record("10.5555/LARGE", "DESC", &"x".repeat(10_000));
    let small = record("10.5555/DEMO", "URL", "https://example.org/");
    dir.write("records.jsonl", format!("{large}\n{small}\n"));
    dir.run_ok(&["import", "records.jsonl"]);
    let network = NetworkPair::new();
    let mut command = in_namespace(&network.server, TENDOT);
    command.current_dir(dir.path()).args(["serve", "--http", "off", "--native", SERVER]);
    let server = TestServer::from_command(&mut command, dir.path());
    let memory = || anonymous_memory(server.pid());
    let before = memory();

    // A flood that is to hit one network, and what another client needs.
    let (received, sent) = network.bytes();
    let (attack, client) = (network.spawn("victim"), network.spawn("client"));
    let (attack, client) = (output(attack), output(client));
    let (received, sent) = (network.bytes().0 - received, network.bytes().1 - sent);
    let allowed = 3 * received + 200_000;
    eprintln!("one network: {}, {received} bytes in, {sent} bytes out", line(&attack, "sent"));
    assert!(received > 1_000_000, "the flood is too small: {received} bytes");
    assert!(sent < allowed, "{sent} bytes out for {received} in, {allowed} are allowed");
    check_client(&client);

    let (attack, client) = (network.spawn("everywhere"), network.spawn("client"));
    let (attack, client) = (output(attack), output(client));
    eprintln!("everywhere: {}; memory {before} bytes, then {}", line(&attack, "sent"), memory());
    check_client(&client);
    assert!(memory() < before + (12 << 20), "{before} bytes, then {}", memory());
}

fn line<'o>(output: &'o str, word: &str) -> &'o str {
    output.lines().find(|line| line.contains(word)).unwrap_or_default()
}

/// Nine of ten requests are answered.
fn check_client(client: &str) {
    let words = line(client, "requests").split(' ');
    let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    let [sent, answered] = numbers[..] else { panic!("{client}") };
    eprintln!("other clients: {answered} of {sent} requests were answered");
    assert!(sent > 0 && answered * 10 >= sent * 9, "{answered} of {sent}");
}
