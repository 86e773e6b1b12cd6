//! Three services on a database with two standbys, one of which has to know what is acknowledged: the primary is killed under load,
//! and a standby promoted. `cargo xtask fail-over` shows what is printed.

#![expect(clippy::print_stdout, reason = "what is printed is what `cargo xtask fail-over` is for")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tendot_testing::postgres::PostgresCluster;

/// Those who deposit, and those who resolve.
const WRITERS: usize = 24;
const READERS: usize = 6;

/// How long the primary is gone before a standby is promoted.
const GONE: Duration = Duration::from_secs(4);

/// A service that runs, and is killed when it is no longer needed.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(directory: &Path, store: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tendot"))
            .args(["serve", "--native", "off", "--http", "127.0.0.1:0", "--store", store, "--data"])
            .arg(directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready =
            said.by_ref().map(Result::unwrap).find(|line| line.starts_with("ready")).expect("it is ready");
        // Nobody may wait for somebody to read it.
        thread::spawn(move || said.for_each(drop));
        let address = ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
        Self { process, address }
    }

    /// An answer's status, and all of it.
    fn ask(&self, method: &str, target: &str, headers: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let length = body.len();
        write!(stream, "{method} {target} HTTP/1.0\r\n{headers}Content-Length: {length}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.map(|status| (status, answer)).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a client was told of a deposit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Told {
    Acknowledged,
    /// Nothing was done.
    Refused,
    /// It is not known what was done.
    Unknown,
}

#[test]
fn no_acknowledged_deposit_is_lost() {
    let cluster = PostgresCluster::start();
    let directory = tempfile::tempdir().unwrap();
    let store = cluster.url("postgres", "");
    let services: Vec<_> = (0..3).map(|_| Service::start(directory.path(), &store)).collect();
    let token = std::fs::read_to_string(directory.path().join("operator.token")).unwrap();
    let token = format!("Authorization: Bearer {}\r\n", token.trim());
    let (status, said) = services[0].ask("POST", "/api/prefixes/10.1000", &token, "").unwrap();
    assert!(status < 300, "{said}");
    let deposit = |service: &Service, name: &str| {
        let body = format!(r#"[{{"index":1,"type":"URL","data":"https://example.org/{name}"}}]"#);
        service.ask("PUT", &format!("/api/handles/10.1000/{name}?overwrite=false"), &token, &body)
    };
    assert_eq!(deposit(&services[1], "read").unwrap().0, 201);

    let (is_ended, told) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let (read, unread) = (AtomicU64::new(0), AtomicU64::new(0));
    // When the last deposit was acknowledged before the change, and the first after.
    let acknowledged_at = Mutex::new(Vec::new());
    let start = Instant::now();
    let (killed, promoted) = thread::scope(|scope| {
        for writer in 0..WRITERS {
            let service = &services[writer % services.len()];
            let (is_ended, told, acknowledged_at) = (&is_ended, &told, &acknowledged_at);
            scope.spawn(move || {
                for number in 0.. {
                    if is_ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("{writer}-{number}");
                    let result = match deposit(service, &name) {
                        Ok((201, _)) => {
                            acknowledged_at.lock().unwrap().push(start.elapsed());
                            Told::Acknowledged
                        }
                        Ok((503, said)) => {
                            let said = said.to_ascii_lowercase();
                            assert!(said.contains("\r\nretry-after: "), "{said}");
                            thread::sleep(Duration::from_millis(50));
                            if said.contains("not known") { Told::Unknown } else { Told::Refused }
                        }
                        Ok((_, said)) => panic!("{name}: {said}"),
                        Err(error) => panic!("{name}: {error}"),
                    };
                    told.lock().unwrap().insert(name, result);
                }
            });
        }
        for reader in 0..READERS {
            let service = &services[reader % services.len()];
            let (is_ended, read, unread) = (&is_ended, &read, &unread);
            scope.spawn(move || {
                for number in 0_u32.. {
                    if is_ended.load(Ordering::Relaxed) {
                        break;
                    }
                    // Kept answers, and those that have to be looked up: parameters make a request one of its own.
                    let target = if number % 2 == 0 { "/10.1000/read" } else { "/10.1000/read?noredirect" };
                    let answer = service.ask("GET", target, "", "");
                    let is_right = matches!(answer, Ok((200 | 302, _)));
                    let count = if is_right { read } else { unread };
                    if !is_right {
                        println!("{target} after {:?}: {answer:?}", start.elapsed());
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        thread::sleep(Duration::from_secs(3));
        cluster.primary.kill();
        let killed = start.elapsed();
        thread::sleep(GONE);
        let (status, said) = services[2].ask("GET", "/readyz", "", "").unwrap();
        assert!(status == 200 && said.contains("changes are not taken now"), "{said}");
        cluster.promote();
        let promoted = start.elapsed();
        thread::sleep(Duration::from_secs(4));
        is_ended.store(true, Ordering::Relaxed);
        (killed, promoted)
    });

    let told = told.into_inner().unwrap();
    let number = |what| told.values().filter(|told| **told == what).count();
    let (mut found, mut twice, mut there) = (0, 0, 0);
    for (place, (name, told)) in told.iter().enumerate() {
        let service = &services[place % services.len()];
        let (status, said) =
            service.ask("GET", &format!("/api/handles/10.1000/{name}?auth"), "", "").unwrap();
        assert!(matches!(status, 200 | 404), "{said}");
        let is_there = status == 200 && said.contains(&format!("https://example.org/{name}\""));
        found += usize::from(is_there && *told == Told::Acknowledged);
        twice += usize::from(is_there && *told == Told::Refused);
        there += usize::from(is_there && *told == Told::Unknown);
    }
    let times = acknowledged_at.into_inner().unwrap();
    let resumed = times.iter().filter(|time| **time > killed).min().expect("changes are taken again");
    let acknowledged = number(Told::Acknowledged);
    let lost = acknowledged - found;
    println!("acknowledged {acknowledged}, found {found}, lost {lost}");
    println!(
        "refused {} (of these done in spite of it {twice}), not known {} (of these done {there})",
        number(Told::Refused),
        number(Told::Unknown)
    );
    println!(
        "the first deposit after the end of the primary came after {:.1} s, {:.1} s after the promotion",
        (*resumed - killed).as_secs_f64(),
        resumed.saturating_sub(promoted).as_secs_f64()
    );
    let (read, unread) = (read.into_inner(), unread.into_inner());
    println!("resolved {read} times, not resolved {unread} times");
    assert_eq!((lost, twice), (0, 0));
    assert_eq!(unread, 0, "reads go on");
    assert!(acknowledged > 100 && read > 1_000, "there was too little to be lost");
    // The old primary is back as a standby.
    let is_primary =
        |server: &&tendot_testing::postgres::PostgresServer| server.psql("select pg_is_in_recovery()") == "f";
    cluster.primary.rejoin(cluster.standbys.iter().find(is_primary).unwrap(), "one");
    let end = Instant::now() + Duration::from_secs(20);
    let up = |service: &Service| {
        let (_, said) = service.ask("GET", "/metrics", "", "").unwrap();
        said.lines().filter(|line| line.starts_with("tendot_database_up{") && line.ends_with(" 1.0")).count()
            == 3
    };
    while !services.iter().all(up) {
        assert!(Instant::now() < end, "the old primary is not seen");
        thread::sleep(Duration::from_millis(100));
    }
}
