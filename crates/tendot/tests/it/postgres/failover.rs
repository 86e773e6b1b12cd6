//! Failover of the database of three servers: no acknowledged write is lost, and reads continue.
//!
//! `cargo xtask failover` shows the report that this test prints.

#![expect(clippy::print_stdout, reason = "`cargo xtask failover` shows the report")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tendot_testing::http::{HttpRequest, HttpResponse};
use tendot_testing::postgres::{PostgresCluster, PostgresServer};
use tendot_testing::{repetitions, wait_until};

use crate::support::{TestDir, TestServer};

const WRITERS: usize = 24;
const READERS: usize = 6;

/// What a client knows about a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ClientOutcome {
    Acknowledged,
    /// Nothing was written.
    Refused,
    /// In doubt: the server does not know whether it was written.
    Unknown,
}

#[test]
fn failover_loses_no_acknowledged_write() {
    // Time from the kill of the primary to the promotion, and number of writes before and after.
    let primary_down_time = Duration::from_secs(repetitions("TENDOT_TEST_FAILOVER_SECONDS", 1, 4));
    let writes = repetitions("TENDOT_TEST_FAILOVER_WRITES", 200, 1_500);
    let min_reads = repetitions("TENDOT_TEST_FAILOVER_READS", 100, 1_000);
    let cluster = PostgresCluster::start();
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).store(&cluster.url("postgres", ""));
    let servers: Vec<_> = (0..3).map(|_| builder.start()).collect();
    let response = servers[0].request("POST", "/api/prefixes/10.1000").send(servers[0].address());
    assert!(response.status < 300, "{}", response.text());
    assert_eq!(write(&servers[1], "read").status, 201);

    let load = FailoverLoad::new();
    let (killed, promoted) = thread::scope(|scope| {
        // Also stops the clients when the test fails.
        let _stop = StopOnDrop(&load.is_finished);
        for (writer, server) in (0..WRITERS).zip(servers.iter().cycle()) {
            let load = &load;
            scope.spawn(move || load.run_writer(server, writer));
        }
        for (_, server) in (0..READERS).zip(servers.iter().cycle()) {
            scope.spawn(|| load.run_reader(server));
        }
        wait_until("enough writes are acknowledged", || load.acknowledged_since(Duration::ZERO) >= writes);
        cluster.primary.kill();
        let killed = load.start.elapsed();
        wait_until("the servers detect the missing primary", || {
            let response = servers[2].get("/readyz");
            assert_eq!(response.status, 200, "{}", response.text());
            response.text().contains("read-only")
        });
        // Requests arrive while there is no primary.
        wait_until("the primary was down long enough", || load.start.elapsed() > killed + primary_down_time);
        cluster.promote();
        let promoted = load.start.elapsed();
        wait_until("writes continue", || load.acknowledged_since(promoted) >= writes);
        (killed, promoted)
    });
    load.check(&servers, killed, promoted, min_reads);

    // The old primary comes back as a standby.
    let is_primary = |server: &&PostgresServer| server.psql("select pg_is_in_recovery()") == "f";
    cluster.primary.rejoin(cluster.standbys.iter().find(is_primary).unwrap(), "one");
    wait_until("all servers see the old primary", || {
        servers.iter().all(|server| server.metric("tendot_database_up") >= 3.0)
    });
}

fn write(server: &TestServer, name: &str) -> HttpResponse {
    let target = format!("10.1000/{name}?overwrite=false");
    server.put_handle(&target, &format!("https://example.org/{name}")).send(server.address())
}

/// Writers and readers, and what they observed.
struct FailoverLoad {
    start: Instant,
    is_finished: AtomicBool,
    outcomes: Mutex<BTreeMap<String, ClientOutcome>>,
    /// Times of acknowledged writes, since the start.
    acknowledged_at: Mutex<Vec<Duration>>,
    reads: AtomicU64,
    failed_reads: AtomicU64,
}

impl FailoverLoad {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            is_finished: AtomicBool::new(false),
            outcomes: Mutex::default(),
            acknowledged_at: Mutex::default(),
            reads: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
        }
    }

    fn acknowledged_since(&self, since: Duration) -> u64 {
        self.acknowledged_at.lock().unwrap().iter().filter(|time| **time > since).count() as u64
    }

    fn run_writer(&self, server: &TestServer, writer: usize) {
        for number in 0.. {
            if self.is_finished.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("{writer}-{number}");
            let response = write(server, &name);
            let outcome = match response.status {
                201 => {
                    self.acknowledged_at.lock().unwrap().push(self.start.elapsed());
                    ClientOutcome::Acknowledged
                }
                // 500 comes with response code 2, if the outcome is not known.
                500 | 503 => {
                    assert!(response.header("retry-after").is_some(), "{}", response.head);
                    // An immediate retry would only load the server.
                    thread::sleep(Duration::from_millis(50));
                    let is_unknown = response.text().contains("outcome unknown");
                    assert_eq!(is_unknown, response.status == 500, "{}", response.text());
                    if is_unknown { ClientOutcome::Unknown } else { ClientOutcome::Refused }
                }
                _ => panic!("{name}: {}{}", response.head, response.text()),
            };
            self.outcomes.lock().unwrap().insert(name, outcome);
        }
    }

    fn run_reader(&self, server: &TestServer) {
        for number in 0_u32.. {
            if self.is_finished.load(Ordering::Relaxed) {
                break;
            }
            // Cached responses, and others: requests with parameters are not cached.
            let target = if number % 2 == 0 { "/10.1000/read" } else { "/10.1000/read?noredirect" };
            let response = HttpRequest::get(target).try_send(server.address());
            let is_ok = response.as_ref().is_ok_and(|response| matches!(response.status, 200 | 302));
            if !is_ok {
                println!("{target} after {:?}: {response:?}", self.start.elapsed());
            }
            let count = if is_ok { &self.reads } else { &self.failed_reads };
            count.fetch_add(1, Ordering::Relaxed);
            // Readers must not take the CPU time of the writers.
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads every name that was written, prints the report, and checks it.
    fn check(self, servers: &[TestServer], killed: Duration, promoted: Duration, min_reads: u64) {
        let outcomes = self.outcomes.into_inner().unwrap();
        let count = |wanted| outcomes.values().filter(|outcome| **outcome == wanted).count();
        let (mut found, mut refused_applied, mut unknown_applied) = (0, 0, 0);
        for ((name, outcome), server) in outcomes.iter().zip(servers.iter().cycle()) {
            let response = server.get(&format!("/api/handles/10.1000/{name}?auth"));
            assert!(matches!(response.status, 200 | 404), "{}", response.text());
            if response.status == 200 && response.text().contains(&format!("https://example.org/{name}\"")) {
                match outcome {
                    ClientOutcome::Acknowledged => found += 1,
                    ClientOutcome::Refused => refused_applied += 1,
                    ClientOutcome::Unknown => unknown_applied += 1,
                }
            }
        }
        let times = self.acknowledged_at.into_inner().unwrap();
        let resumed = times.iter().filter(|time| **time > killed).min().expect("writes resumed");
        let acknowledged = count(ClientOutcome::Acknowledged);
        let lost = acknowledged - found;
        println!("acknowledged {acknowledged}, found {found}, lost {lost}");
        println!(
            "rejected {} ({refused_applied} of them applied), in doubt {} ({unknown_applied} applied)",
            count(ClientOutcome::Refused),
            count(ClientOutcome::Unknown)
        );
        println!(
            "writes resumed after {:.1} s, {:.1} s after promotion",
            (*resumed - killed).as_secs_f64(),
            resumed.saturating_sub(promoted).as_secs_f64()
        );
        let (reads, failed_reads) = (self.reads.into_inner(), self.failed_reads.into_inner());
        println!("resolutions: {reads} ok, {failed_reads} failed");
        assert_eq!((lost, refused_applied), (0, 0));
        assert_eq!(failed_reads, 0, "reads continue");
        assert!(acknowledged > 100 && reads > min_reads, "{acknowledged} writes, {reads} reads");
    }
}

/// Stops the clients on drop.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
