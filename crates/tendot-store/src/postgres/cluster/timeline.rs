//! PostgreSQL timelines: detect a superseded primary. Recorded in the database and in a file.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use tokio_postgres::Row;

use crate::StoreError;
use crate::durable_dir::sync_dir;
use crate::postgres::row;

/// Reads the timeline of a host; the number is null on a standby. Exact as soon as a promoted host accepts writes, unlike that of
/// `pg_control_checkpoint()`, which lags until the next checkpoint. Needs no privileges, but functions of PostgreSQL itself.
pub(crate) const SELECT_TIMELINE: &str = "select s.system_identifier, case when pg_is_in_recovery() then null \
     else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint end from pg_control_system() s";

/// Maximum size of a timeline file that is read.
const MAX_FILE_BYTES: u64 = 100;

/// Timeline of a PostgreSQL cluster: each promotion starts one with a higher number.
///
/// Written as `SYSTEM/NUMBER`. Numbers can be compared only within one system (`initdb`), which all hosts of a cluster share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Timeline {
    /// System identifier.
    pub(crate) system: u64,
    pub(crate) number: u32,
}

impl Timeline {
    /// Whether a promotion that led to `other` has superseded a primary with this timeline.
    pub(crate) const fn is_superseded_by(self, other: Self) -> bool {
        self.system == other.system && self.number < other.number
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system, self.number)
    }
}

impl FromStr for Timeline {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (system, number) = text.trim().split_once('/').ok_or(())?;
        Ok(Self { system: system.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}

/// Timeline reported by a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HostTimeline {
    /// System identifier; `None` if the database has no timelines.
    pub(crate) system: Option<u64>,
    /// Timeline; `None` on a standby.
    pub(crate) current: Option<Timeline>,
}

impl HostTimeline {
    /// Decodes the row of [`SELECT_TIMELINE`].
    pub(crate) fn from_row(row: &Row) -> Result<Self, StoreError> {
        let system = row::column::<i64>(row, 0)?.cast_unsigned();
        let number = row::column::<Option<i64>>(row, 1)?.and_then(|number| u32::try_from(number).ok());
        Ok(Self { system: Some(system), current: number.map(|number| Timeline { system, number }) })
    }
}

/// Decodes a column of `tendot_counters.timeline`.
pub(crate) fn recorded_timeline(row: &Row, column: usize) -> Result<Option<Timeline>, StoreError> {
    Ok(row::column::<Option<&str>>(row, column)?.and_then(|text| text.parse().ok()))
}

/// Statement that records a timeline in a primary. It waits for no standby, since those of a superseded primary follow another
/// one.
pub(crate) fn record_timeline_sql(timeline: Timeline) -> String {
    format!(
        "begin; set local lock_timeout = '1s'; set local synchronous_commit = local; \
         update tendot_counters set timeline = '{timeline}' where id = 1; commit"
    )
}

/// File with the highest timeline that this server has seen, so that it knows it after a restart.
#[derive(Debug)]
pub(crate) struct TimelineFile {
    path: PathBuf,
    written: Mutex<Option<Timeline>>,
    /// Held while the file is written, so that `written` is never locked while waiting for the disk.
    writing: Mutex<()>,
    /// Whether the last write failed, so that the log does not repeat it.
    has_failed: AtomicBool,
}

impl TimelineFile {
    /// Reads the file, if there is one. Invalid content is an error: without the timeline, a superseded primary could be used.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let written = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
            Ok(metadata) if metadata.len() > MAX_FILE_BYTES => return Err(invalid_file()),
            Ok(_) => Some(std::fs::read_to_string(path)?.parse().map_err(|()| invalid_file())?),
        };
        let (written, writing) = (Mutex::new(written), Mutex::new(()));
        Ok(Self { path: path.into(), written, writing, has_failed: AtomicBool::new(false) })
    }

    /// Timeline in the file.
    pub(crate) fn timeline(&self) -> Option<Timeline> {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a timeline, and logs the first of several failures. Does nothing while another thread writes: the next poll repeats it.
    pub(crate) fn save(&self, timeline: Timeline) {
        let _writing = match self.writing.try_lock() {
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Ok(writing) => writing,
        };
        match self.write(timeline) {
            Ok(()) => self.has_failed.store(false, Ordering::Relaxed),
            Err(error) if !self.has_failed.swap(true, Ordering::Relaxed) => tracing::error!(
                path = %self.path.display(),
                %error,
                "cannot write the timeline file: a superseded primary might be used after a restart; check the disk"
            ),
            Err(_) => {}
        }
    }

    /// Replaces the content durably, unless it is this timeline already or a higher one of the same system.
    fn write(&self, timeline: Timeline) -> io::Result<()> {
        let written = self.timeline();
        if written.is_some_and(|written| written == timeline || timeline.is_superseded_by(written)) {
            return Ok(());
        }
        // Servers may share a data directory.
        let draft = self.path.with_extension(format!("{}.part", std::process::id()));
        let mut file = std::fs::File::create(&draft)?;
        file.write_all(format!("{timeline}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &self.path)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new(".")))?;
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(timeline);
        Ok(())
    }
}

fn invalid_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "expected `SYSTEM/NUMBER`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn timeline(system: u64, number: u32) -> Timeline {
        Timeline { system, number }
    }

    #[test]
    fn only_timelines_of_one_system_are_compared() {
        assert!(timeline(7, 1).is_superseded_by(timeline(7, 2)));
        assert!(!timeline(7, 2).is_superseded_by(timeline(7, 2)));
        assert!(!timeline(7, 3).is_superseded_by(timeline(7, 2)));
        assert!(!timeline(7, 1).is_superseded_by(timeline(8, 2)));
    }

    #[test]
    fn text_form() {
        assert_eq!(timeline(7_709_751_182_612_882_082, 12).to_string(), "7709751182612882082/12");
        assert_eq!("7/12\n".parse(), Ok(timeline(7, 12)));
        for text in ["", "7", "7/", "/1", "7/x", "7/1/2"] {
            assert_eq!(text.parse::<Timeline>(), Err(()), "{text}");
        }
    }

    /// A disk that hangs while the file is written blocks neither the threads that read the timeline nor those that would write it.
    #[test]
    fn slow_disks_do_not_block_other_threads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timeline");
        let draft = path.with_extension(format!("{}.part", std::process::id()));
        // Opening a pipe waits for its other end.
        rustix::fs::mknodat(rustix::fs::CWD, &draft, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let file = TimelineFile::open(&path).unwrap();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                // Again if it met the check below.
                while !file.has_failed.load(Ordering::Relaxed) {
                    file.save(timeline(7, 2));
                }
            });
            tendot_testing::wait_until("the file is being written", || file.writing.try_lock().is_err());
            file.save(timeline(7, 3));
            assert_eq!(file.timeline(), None);
            assert!(!writing.is_finished());
            drop(std::fs::File::open(&draft).unwrap());
        });
        // A pipe cannot be synced.
        assert!(file.has_failed.load(Ordering::Relaxed));
        std::fs::remove_file(&draft).unwrap();
        file.save(timeline(7, 3));
        assert_eq!(file.timeline(), Some(timeline(7, 3)));
    }

    #[test]
    fn file_keeps_the_highest_timeline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timeline");
        let open = || TimelineFile::open(&path).unwrap();
        let file = open();
        assert_eq!(file.timeline(), None);
        file.write(timeline(7, 2)).unwrap();
        file.write(timeline(7, 1)).unwrap();
        assert_eq!(open().timeline(), Some(timeline(7, 2)));
        // Another database.
        file.write(timeline(8, 1)).unwrap();
        assert_eq!(open().timeline(), Some(timeline(8, 1)));
        for content in ["", "8", &"8/1".repeat(100)] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(TimelineFile::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
