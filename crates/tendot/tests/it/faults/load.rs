//! Clients, a reader of the change feed, and a fault at the same time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value as Json;
use tendot_testing::http::HttpRequest;
use tendot_testing::{SeededRng, WAIT_TIMEOUT, test_seed, wait_until};

use super::ledger::Ledger;
use super::request::Connections;
use super::service::Service;
use super::workload::Client;

/// Clients of a run.
const CLIENTS: usize = 6;

/// Names that fit into the quota of a run.
pub(super) const QUOTA: u64 = 25;

/// Time between two reads of the change feed.
const FEED_INTERVAL: Duration = Duration::from_millis(20);

/// How clients of a run behave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadSettings {
    /// Time after which some clients do not wait any longer.
    pub(super) short_timeout: Option<Duration>,
    /// Whether a connection without a response means that the server was killed, so that nothing can happen later.
    pub(super) lost_connection_means_kill: bool,
}

/// One run: servers, what their clients did, and the changes that a reader of the change feed has seen.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) service: Service,
    pub(super) ledger: Ledger,
    pub(super) settings: LoadSettings,
    /// Changes that the reader of the change feed has received, in order.
    pub(super) followed: Mutex<Vec<Json>>,
    is_finished: AtomicBool,
    has_failed: AtomicBool,
}

/// Random numbers of a test; prints their seed, which the output of a failed test has.
#[expect(clippy::print_stdout, reason = "the seed repeats a failed run")]
pub(super) fn seeded_rng() -> SeededRng {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    SeededRng::new(seed)
}

/// Lets the clients go on for a time: a fault has to come at a random moment, not at an event, and a client that repeats a request
/// at once only loads the machine.
pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}

/// A random time of at most so many milliseconds.
pub(super) fn random_time(rng: &mut SeededRng, max_ms: usize) -> Duration {
    Duration::from_micros(rng.below(max_ms * 1_000) as u64)
}

impl Load {
    pub(super) fn new(service: Service, settings: LoadSettings) -> Self {
        let (ledger, followed) = (Ledger::default(), Mutex::default());
        let [is_finished, has_failed] = [(); 2].map(|()| AtomicBool::new(false));
        Self { service, ledger, settings, followed, is_finished, has_failed }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }

    /// Runs clients during `fault`, and until all keyed requests are answered.
    #[expect(clippy::print_stdout, reason = "the output of a failed test")]
    pub(super) fn run(&self, seed: u64, fault: impl FnOnce()) {
        thread::scope(|scope| {
            // Also stops the clients when the fault fails.
            let stop = SetOnDrop(&self.is_finished);
            for number in 0..CLIENTS {
                scope.spawn(move || {
                    let _failure = SetOnPanic(&self.has_failed);
                    Client::new(self, number, seed).run();
                });
            }
            scope.spawn(|| {
                let _failure = SetOnPanic(&self.has_failed);
                self.follow_changes();
            });
            fault();
            drop(stop);
        });
        println!("{}", self.ledger.summary());
    }

    /// Waits until clients have received this many more acknowledgements.
    #[track_caller]
    pub(super) fn wait_for_progress(&self, operations: u64) {
        let enough = self.ledger.acknowledged() + operations;
        self.wait_until("clients make progress", || self.ledger.acknowledged() >= enough);
    }

    /// Waits for a condition, or panics when a client has failed.
    #[track_caller]
    pub(super) fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        wait_until(what, || {
            assert!(!self.has_failed.load(Ordering::Relaxed), "a client has failed");
            condition()
        });
    }

    /// Reads the change feed in small steps, at any server.
    fn follow_changes(&self) {
        let mut connections = Connections::new(&self.service, &self.ledger);
        let (mut after, mut server) = (0, 0);
        while !self.is_finished() {
            let request = HttpRequest::get(&format!("/api/v1/changes?after={after}"));
            let request = request.bearer(&self.service.operator);
            let answer = connections.send(server, &request, WAIT_TIMEOUT);
            if answer.status == 200 {
                let mut changes = answer.response.json_lines();
                after = changes.last().map_or(after, |change| change["seq"].as_u64().unwrap());
                self.followed.lock().unwrap().append(&mut changes);
            }
            server = (server + 1) % self.service.len();
            pause(FEED_INTERVAL);
        }
    }
}

/// Sets a flag on drop.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets a flag when its thread panics.
struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
