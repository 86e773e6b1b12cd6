//! Journal of a batch: results of its entries, so that an interrupted batch can be resumed.
//!
//! JSON lines: the server first, then `started` before an entry is sent and its result afterwards. Entries are identified by
//! their digests, so that lines may be inserted or removed between runs.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::CliError;

/// Journal of a batch file.
pub(super) struct BatchJournal {
    path: PathBuf,
    file: File,
    /// Earlier results of each entry that is not finished, by digest.
    earlier: HashMap<String, EarlierResults>,
}

/// Results of entries with the same lines in earlier runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct EarlierResults {
    /// Number of entries that succeeded.
    done: u64,
    /// Whether one was sent and its result is not known.
    is_in_doubt: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<JournalStatus>,
}

impl BatchJournal {
    /// Opens the journal of a batch for this server, and reads the results of earlier runs.
    pub(super) fn open(path: &Path, server: &str) -> Result<Self, CliError> {
        let failed = |error| {
            CliError::io(format!("cannot open the journal `{}`", path.display()), &error)
                .with_hint("choose another file with `--journal FILE`, or `--no-journal`")
        };
        let (earlier, is_new) = match File::open(path) {
            Ok(file) => (read_results(path, file, server)?, false),
            Err(error) if error.kind() == ErrorKind::NotFound => (HashMap::new(), true),
            Err(error) => return Err(failed(error)),
        };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file, earlier };
        if is_new {
            journal.write(&JournalLine {
                server: Some(server.into()),
                entry: None,
                line: None,
                status: None,
            })?;
        } else {
            // An interrupted run may have left an incomplete line.
            journal.file.write_all(b"\n").map_err(failed)?;
        }
        Ok(journal)
    }

    /// State of the next entry with this digest.
    pub(super) fn take_state(&mut self, digest: &str) -> EntryState {
        let Some(earlier) = self.earlier.get_mut(digest) else { return EntryState::New };
        if earlier.done > 0 {
            earlier.done -= 1;
            return EntryState::Done;
        }
        if std::mem::take(&mut earlier.is_in_doubt) { EntryState::InDoubt } else { EntryState::New }
    }

    /// Records the status of an entry.
    pub(super) fn record(&mut self, digest: &str, line: u64, status: JournalStatus) -> Result<(), CliError> {
        let entry = Some(digest.to_owned());
        self.write(&JournalLine { server: None, entry, line: Some(line), status: Some(status) })
    }

    /// Removes the journal of a batch that is complete.
    pub(super) fn remove(self) -> Result<(), CliError> {
        std::fs::remove_file(&self.path).map_err(|error| {
            CliError::io(format!("cannot remove the journal `{}`", self.path.display()), &error)
        })
    }

    fn write(&mut self, line: &JournalLine) -> Result<(), CliError> {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.file.write_all(&text).map_err(|error| {
            CliError::io(format!("cannot write the journal `{}`", self.path.display()), &error)
        })
    }
}

fn read_results(path: &Path, file: File, server: &str) -> Result<HashMap<String, EarlierResults>, CliError> {
    let mut earlier: HashMap<String, EarlierResults> = HashMap::new();
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
        let Ok(JournalLine { entry: Some(entry), status: Some(status), .. }) = parsed else { continue };
        let results = earlier.entry(entry).or_default();
        results.is_in_doubt = status == JournalStatus::Started;
        results.done += u64::from(status == JournalStatus::Done);
    }
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumes_by_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = BatchJournal::open(&path, "hdl://a").unwrap();
        for (digest, statuses) in [
            ("twice", &[JournalStatus::Started, JournalStatus::Done, JournalStatus::Started][..]),
            ("failed", &[JournalStatus::Started, JournalStatus::Failed]),
        ] {
            for status in statuses {
                journal.record(digest, 1, *status).unwrap();
            }
        }
        drop(journal);
        // A process that was killed while it wrote a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"entry\":\"x").unwrap();
        let mut journal = BatchJournal::open(&path, "hdl://a").unwrap();
        assert_eq!(journal.take_state("twice"), EntryState::Done);
        assert_eq!(journal.take_state("twice"), EntryState::InDoubt);
        assert_eq!(journal.take_state("twice"), EntryState::New);
        assert_eq!(journal.take_state("failed"), EntryState::New);
        assert_eq!(journal.take_state("other"), EntryState::New);
        journal.record("other", 2, JournalStatus::Done).unwrap();
        drop(journal);
        assert!(BatchJournal::open(&path, "hdl://b").is_err(), "another server");
        let mut journal = BatchJournal::open(&path, "hdl://a").unwrap();
        assert_eq!(journal.take_state("other"), EntryState::Done);
        journal.remove().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "CREATE 10.5555/1\n").unwrap();
        assert!(BatchJournal::open(&path, "hdl://a").is_err(), "not a journal");
    }
}
