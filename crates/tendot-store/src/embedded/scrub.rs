//! Scrub: background thread that reads the whole store periodically at a low rate and reports corruption.
//!
//! It reads pages without LMDB, in steps of some 100 KB, so corruption cannot crash it, and LMDB can reuse freed pages.
//! It checks pages, the order of keys and the checksums of all values; `verify` also compares the databases with each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::format::checksum;
use super::lmdb::environment::DATABASE_NAMES;
use super::lmdb::page_check::PageFile;
use super::lmdb::page_scan::ScanStep;
use super::{EmbeddedStore, Lmdb, OpenError};

/// Bytes read in one step.
const STEP_BYTES: u64 = 256 << 10;

/// Minimum rate in bytes per second.
const MIN_BYTES_PER_SECOND: u64 = 1 << 20;

/// Share of the interval that one pass takes at most, as a divisor.
const INTERVAL_DIVISOR: u64 = 2;

/// Delay after which a step is tried again that could not read the store, at most one interval.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Maximum number of log lines about corruption per pass.
const MAX_LOGGED_FAULTS: u64 = 20;

/// Progress and result of the scrub.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScrubStatus {
    /// Time when the last pass ended, in milliseconds since 1970; `None` before the first one since the store was opened.
    pub completed_ms: Option<u64>,
    /// Number of corrupt pages and entries found in the last pass, or so far in the current one if that is more.
    pub damaged: u64,
    /// Bytes read since the store was opened.
    pub bytes_read: u64,
}

#[derive(Debug, Default)]
struct ScrubState {
    /// 0 before the end of the first pass.
    completed_ms: AtomicU64,
    last_damaged: AtomicU64,
    current_damaged: AtomicU64,
    bytes_read: AtomicU64,
    has_started: AtomicBool,
}

/// Scrub thread of a store.
#[derive(Debug)]
pub(crate) struct Scrubber {
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Scrubber {
    /// Stops and joins the thread.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Scrub state shared with the status callback; it exists even without the thread.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    state: Arc<ScrubState>,
    thread: Option<Scrubber>,
}

impl EmbeddedStore {
    /// Starts a thread that reads the whole store once in each interval, now for the first time. It is stopped when the store is
    /// closed.
    pub fn start_scrub(&mut self, interval: Duration) -> Result<(), OpenError> {
        let (stop, stopped) = channel();
        let (lmdb, state) = (Arc::clone(&self.lmdb), Arc::clone(&self.scrub.state));
        let spawned = std::thread::Builder::new().name("tendot-scrub".into()).spawn(move || {
            let run = ScrubRun { lmdb: &lmdb, state: &state, stopped: &stopped, interval };
            run.run();
        });
        let thread = spawned.map_err(super::error::io_error(self.lmdb.env.path()))?;
        self.scrub.thread = Some(Scrubber { stop: Some(stop), thread: Some(thread) });
        Ok(())
    }

    /// Returns a function that reads the status of the scrub; it does not keep the store open.
    pub fn scrub_status_handle(&self) -> impl Fn() -> Option<ScrubStatus> + Clone + Send + Sync + 'static {
        let state = Arc::clone(&self.scrub.state);
        move || state.has_started.load(Ordering::Relaxed).then(|| state.status())
    }
}

impl ScrubState {
    fn status(&self) -> ScrubStatus {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        ScrubStatus {
            completed_ms: Some(read(&self.completed_ms)).filter(|time| *time > 0),
            damaged: read(&self.last_damaged).max(read(&self.current_damaged)),
            bytes_read: read(&self.bytes_read),
        }
    }
}

/// Loop of the scrub thread.
struct ScrubRun<'a> {
    lmdb: &'a Lmdb,
    state: &'a ScrubState,
    stopped: &'a mpsc::Receiver<()>,
    interval: Duration,
}

impl ScrubRun<'_> {
    fn run(&self) {
        self.state.has_started.store(true, Ordering::Relaxed);
        loop {
            let started = Instant::now();
            if self.scrub_all().is_none() || self.is_stopped_within(self.pause_after_pass(started.elapsed()))
            {
                return;
            }
        }
    }

    /// Pause after a pass that took `elapsed`: passes begin once in each interval.
    const fn pause_after_pass(&self, elapsed: Duration) -> Duration {
        self.interval.saturating_sub(elapsed)
    }

    /// Waits; true if the thread should stop.
    fn is_stopped_within(&self, time: Duration) -> bool {
        !matches!(self.stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Reads all databases once; `None` if the thread should stop.
    fn scrub_all(&self) -> Option<()> {
        self.state.current_damaged.store(0, Ordering::Relaxed);
        for database in DATABASE_NAMES {
            self.scrub_database(database)?;
        }
        let state = self.state;
        state.last_damaged.store(state.current_damaged.load(Ordering::Relaxed), Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        state.completed_ms.store(u64::try_from(now).unwrap_or_default(), Ordering::Relaxed);
        Some(())
    }

    fn scrub_database(&self, database: &str) -> Option<()> {
        let mut from = Vec::new();
        loop {
            let scanned = PageFile::with_last_state(&self.lmdb.env, |pages| {
                pages.scan(database, &from, STEP_BYTES, &mut |key, value| {
                    checksum::verify_and_strip(key, value, "entry").err().map(|error| error.detail())
                })
            });
            let Ok(scanned) = scanned else {
                // LMDB has failed, which `write_status` reports, or there are no file descriptors or reader slots left. What was
                // not read does not count as sound.
                if self.is_stopped_within(self.interval.min(RETRY_DELAY)) {
                    return None;
                }
                continue;
            };
            let ScanStep { bytes, next, faults } = scanned.unwrap_or_else(|fault| ScanStep {
                faults: vec![format!("{database}: {fault}")],
                ..ScanStep::default()
            });
            self.state.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            faults.iter().for_each(|fault| self.add_fault(fault));
            if self.is_stopped_within(self.pause(bytes)) {
                return None;
            }
            match next {
                Some(next) => from = next,
                None => return Some(()),
            }
        }
    }

    fn add_fault(&self, fault: &str) {
        if self.state.current_damaged.fetch_add(1, Ordering::Relaxed) < MAX_LOGGED_FAULTS {
            tracing::error!(
                fault,
                "scrub found corruption; run `tendot verify`, and restore the corrupt records from a backup with `tendot restore \
                 --damaged`"
            );
        }
    }

    /// Delay after reading this many bytes.
    fn pause(&self, bytes: u64) -> Duration {
        let length = self.lmdb.env.path().join("data.mdb").metadata().map_or(0, |metadata| metadata.len());
        let per_second = length.saturating_mul(INTERVAL_DIVISOR) / self.interval.as_secs().max(1);
        Duration::from_secs_f64(bytes as f64 / per_second.max(MIN_BYTES_PER_SECOND) as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pollster::block_on;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::{ChangeSet, Edit, Store as _};

    const DAY: Duration = Duration::from_secs(86_400);

    fn store(directory: &std::path::Path) -> EmbeddedStore {
        let store = EmbeddedStore::open(directory).unwrap();
        let edits = vec![Edit::Home { prefix: "10.1".into() }];
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 1, edits })).unwrap();
        store
    }

    /// A file that cannot be opened is not damage, and a pass that cannot read it does not end.
    #[test]
    fn unreadable_files_are_tried_again() {
        let directory = ram_dir();
        let store = store(directory.path());
        let [data, moved] = ["data.mdb", "moved"].map(|name| directory.path().join(name));
        let state = ScrubState::default();
        state.last_damaged.store(3, Ordering::Relaxed);
        let scrub = |interval: Duration, stopped: &mpsc::Receiver<()>| {
            ScrubRun { lmdb: &store.lmdb, state: &state, stopped, interval }.scrub_all()
        };
        std::fs::rename(&data, &moved).unwrap();
        let (stop, stopped) = channel();
        drop(stop);
        assert_eq!(scrub(DAY, &stopped), None);
        assert_eq!(state.status(), ScrubStatus { completed_ms: None, damaged: 3, bytes_read: 0 });
        assert_eq!(state.current_damaged.load(Ordering::Relaxed), 0);
        let (_stop, stopped) = channel();
        let completed = thread::scope(|scope| {
            let scrubbing = scope.spawn(move || scrub(Duration::from_millis(10), &stopped));
            std::fs::rename(&moved, &data).unwrap();
            scrubbing.join().unwrap()
        });
        assert_eq!((completed, state.status().damaged), (Some(()), 0));
        assert!(state.status().completed_ms.is_some());
    }

    /// A pass begins once in each interval, however long it takes.
    #[test]
    fn passes_begin_once_in_each_interval() {
        let directory = ram_dir();
        let store = store(directory.path());
        let (_stop, stopped) = channel();
        let state = ScrubState::default();
        let run = ScrubRun { lmdb: &store.lmdb, state: &state, stopped: &stopped, interval: DAY };
        for (elapsed, pause) in [(Duration::ZERO, DAY), (DAY / 2, DAY / 2), (2 * DAY, Duration::ZERO)] {
            assert_eq!(run.pause_after_pass(elapsed), pause, "{elapsed:?}");
        }
    }
}
