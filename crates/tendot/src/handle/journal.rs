//! Journal of a batch: results of its entries, so that an interrupted batch can be resumed.
//!
//! JSON lines: the server first, then `started` before an entry is sent and its result afterwards. Entries are identified by
//! their digests, so that lines may be inserted or removed between runs; equal entries are numbered in the order of the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::CliError;

/// Journal of a batch file.
pub(super) struct HandleBatchJournal {
    path: PathBuf,
    file: File,
    /// Last status of each entry in earlier runs, by digest and number.
    earlier: HashMap<(String, u32), JournalStatus>,
    /// Number of entries of this run by the start of their digests, to number equal ones.
    counts: HashMap<u64, u32>,
}

/// Entry of a batch in its journal.
#[derive(Debug)]
pub(super) struct JournalEntry {
    digest: String,
    /// Number among the entries with the same lines, from 1.
    number: u32,
    pub(super) state: EntryState,
}

/// State of an entry before it is executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EntryState {
    /// Not executed, or failed: execute it.
    New,
    /// Sent by an earlier run, with an unknown result.
    InDoubt,
    /// Succeeded in an earlier run.
    Done,
}

/// Status of an entry in the journal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JournalStatus {
    /// About to be sent.
    Started,
    /// Succeeded.
    Done,
    /// Refused by the server.
    Failed,
}

#[derive(Deserialize, Serialize)]
struct JournalLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// Number among equal entries; 1 if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<JournalStatus>,
}

impl HandleBatchJournal {
    /// Opens the journal of a batch for this server, and reads the results of earlier runs.
    pub(super) fn open(path: &Path, server: &str) -> Result<Self, CliError> {
        let failed = |error| {
            CliError::io(format!("cannot open the journal `{}`", path.display()), &error)
                .with_hint("choose another file with `--journal FILE`, or `--no-journal`")
        };
        let file =
            OpenOptions::new().read(true).create(true).append(true).mode(0o600).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            // Such as a network file system without locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("another batch uses the journal `{}`", path.display());
                return Err(CliError::new(why).with_hint("wait until it has ended"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let is_new = file.metadata().map_err(failed)?.len() == 0;
        let earlier = if is_new { HashMap::new() } else { read_results(path, &file, server)? };
        let mut journal = Self { path: path.to_owned(), file, earlier, counts: HashMap::new() };
        if is_new {
            journal.write(&JournalLine {
                server: Some(server.into()),
                entry: None,
                number: None,
                line: None,
                status: None,
            })?;
        } else {
            // An interrupted run may have left an incomplete line.
            journal.file.write_all(b"\n").map_err(failed)?;
        }
        Ok(journal)
    }

    /// Next entry of the file, which has this digest, and its state.
    pub(super) fn next_entry(&mut self, digest: &str) -> JournalEntry {
        // 64 bits of the digest: memory is bounded by a few bytes per entry.
        let start = digest.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let count = self.counts.entry(start.unwrap_or_default()).or_default();
        *count += 1;
        let key = (digest.to_owned(), *count);
        let state = match self.earlier.get(&key) {
            None | Some(JournalStatus::Failed) => EntryState::New,
            Some(JournalStatus::Started) => EntryState::InDoubt,
            Some(JournalStatus::Done) => EntryState::Done,
        };
        JournalEntry { digest: key.0, number: key.1, state }
    }

    /// Records the status of an entry.
    pub(super) fn record(
        &mut self,
        entry: &JournalEntry,
        line: u64,
        status: JournalStatus,
    ) -> Result<(), CliError> {
        let number = Some(entry.number).filter(|number| *number > 1);
        let entry = Some(entry.digest.clone());
        self.write(&JournalLine { server: None, entry, number, line: Some(line), status: Some(status) })
    }

    /// Removes the journal of a batch that is complete.
    pub(super) fn remove(self) -> Result<(), CliError> {
        let failed =
            |error| CliError::io(format!("cannot remove the journal `{}`", self.path.display()), &error);
        // Not a device such as /dev/null.
        match self.file.metadata().map_err(failed)?.is_file() {
            true => std::fs::remove_file(&self.path).map_err(failed),
            false => Ok(()),
        }
    }

    fn write(&mut self, line: &JournalLine) -> Result<(), CliError> {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.file.write_all(&text).map_err(|error| {
            CliError::io(format!("cannot write the journal `{}`", self.path.display()), &error)
        })
    }
}

fn read_results(
    path: &Path,
    file: &File,
    server: &str,
) -> Result<HashMap<(String, u32), JournalStatus>, CliError> {
    let mut earlier = HashMap::new();
    let mut is_first = true;
    for line in BufReader::new(file).lines() {
        let line = line
            .map_err(|error| CliError::io(format!("cannot read the journal `{}`", path.display()), &error))?;
        let parsed: Result<JournalLine, _> = serde_json::from_str(&line);
        if std::mem::take(&mut is_first) {
            let found = parsed.ok().and_then(|line| line.server);
            if found.as_deref() != Some(server) {
                let why = format!("`{}` is not a journal for {server}", path.display());
                return Err(
                    CliError::new(why).with_hint("remove it, or use another file with `--journal FILE`")
                );
            }
            continue;
        }
        // The last line of an interrupted run may be incomplete.
        let Ok(JournalLine { entry: Some(entry), number, status: Some(status), .. }) = parsed else {
            continue;
        };
        earlier.insert((entry, number.unwrap_or(1)), status);
    }
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "hdl://a";
    const FIRST: &str = "aaaaaaaaaaaaaaaa0000";
    const SECOND: &str = "bbbbbbbbbbbbbbbb0000";
    const THIRD: &str = "cccccccccccccccc0000";

    fn states(journal: &mut HandleBatchJournal, digests: &[&str]) -> Vec<EntryState> {
        digests.iter().map(|digest| journal.next_entry(digest).state).collect()
    }

    #[test]
    fn resumes_by_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = HandleBatchJournal::open(&path, SERVER).unwrap();
        for (digest, statuses) in [
            (FIRST, &[JournalStatus::Started, JournalStatus::Done][..]),
            (FIRST, &[JournalStatus::Started]),
            (SECOND, &[JournalStatus::Started, JournalStatus::Failed]),
        ] {
            let entry = journal.next_entry(digest);
            for status in statuses {
                journal.record(&entry, 1, *status).unwrap();
            }
        }
        let error = HandleBatchJournal::open(&path, SERVER).err().unwrap();
        assert!(error.message().starts_with("another batch uses the journal"), "{error}");
        drop(journal);
        // A process that was killed while it wrote a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"entry\":\"x").unwrap();
        let mut journal = HandleBatchJournal::open(&path, SERVER).unwrap();
        assert_eq!(
            states(&mut journal, &[FIRST, FIRST, FIRST, SECOND]),
            [EntryState::Done, EntryState::InDoubt, EntryState::New, EntryState::New]
        );
        let entry = journal.next_entry(THIRD);
        assert_eq!(entry.state, EntryState::New);
        journal.record(&entry, 2, JournalStatus::Done).unwrap();
        drop(journal);
        assert!(HandleBatchJournal::open(&path, "hdl://b").is_err(), "another server");
        let mut journal = HandleBatchJournal::open(&path, SERVER).unwrap();
        assert_eq!(states(&mut journal, &[THIRD]), [EntryState::Done]);
        journal.remove().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "CREATE 10.5555/1\n").unwrap();
        assert!(HandleBatchJournal::open(&path, SERVER).is_err(), "not a journal");
    }

    /// Of equal entries, that one is executed again which failed: not the later one, which is done.
    #[test]
    fn equal_entries() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for _ in 0..2 {
            let mut journal = HandleBatchJournal::open(&path, SERVER).unwrap();
            for status in [JournalStatus::Failed, JournalStatus::Done] {
                let entry = journal.next_entry(FIRST);
                if entry.state == EntryState::New {
                    journal.record(&entry, 1, JournalStatus::Started).unwrap();
                    journal.record(&entry, 1, status).unwrap();
                }
            }
            drop(journal);
            let mut journal = HandleBatchJournal::open(&path, SERVER).unwrap();
            assert_eq!(states(&mut journal, &[FIRST, FIRST]), [EntryState::New, EntryState::Done]);
        }
    }
}
