//! `tendot handle batch`: executes a Handle.Net batch file, with a result per entry.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tendot_client::native::ResolveOptions;
use tendot_proto::{HandleValue, ResponseCode};

use super::HandleConnectionArguments;
use super::batch_language::{BatchOperation, BatchReader};
use super::connection::{HandleConnection, OperationError};
use super::credentials::batch_identity;
use super::journal::{EntryState, HandleBatchJournal, JournalEntry, JournalStatus};
use crate::store::import::ImportSource;
use crate::terminal::{StdoutWriter, eprint_line, eprint_stdin_notice, escape_control, is_stdio};
use crate::{CliError, CommandStatus};

/// Execute a Handle.Net batch file
///
/// Reads the language of `hdl-genericbatch`: AUTHENTICATE, CREATE, ADD, MODIFY, REMOVE, DELETE, HOME, UNHOME. All entries go to
/// `--server`, also if HOME names another one. An entry that the server refuses does not stop the batch; a lost connection or a
/// failed authentication does. Results are recorded in a journal, FILE.journal: the same command skips what is done and executes
/// the rest. A journal is removed when all entries have succeeded.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle batch changes.txt --server hdl://127.0.0.1:2641 --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle batch changes.txt --server https://handle.example.org --json > results.jsonl
  tendot handle batch - --journal done.journal < changes.txt

Exit codes: 0 success, 1 some entries failed, 2 error (run the same command again to execute the rest)")]
pub(crate) struct BatchArguments {
    /// Batch file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Journal [default: FILE.journal; none for standard input]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,

    /// Do not write a journal
    #[arg(long, conflicts_with = "journal")]
    no_journal: bool,

    /// Check the file without sending anything
    #[arg(long)]
    dry_run: bool,
}

/// Result of one entry.
#[derive(Serialize)]
struct EntryJson<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
    status: EntryStatus,
    #[serde(rename = "responseCode", skip_serializing_if = "Option::is_none")]
    code: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum EntryStatus {
    /// Executed, or found to have been executed by an interrupted run.
    Done,
    /// Refused by the server, or invalid.
    Failed,
    /// Done by an earlier run.
    Skipped,
    /// Valid, in a dry run.
    Valid,
}

impl EntryStatus {
    const fn text(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Valid => "valid",
        }
    }
}

/// Number of entries by result.
#[derive(Default)]
struct BatchCounts {
    done: u64,
    failed: u64,
    skipped: u64,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &BatchArguments,
) -> Result<CommandStatus, CliError> {
    if is_stdio(&arguments.file) {
        eprint_stdin_notice();
    }
    let source = ImportSource::open(&arguments.file)?;
    if arguments.dry_run {
        let mut report = BatchReport::new(connection.json);
        return check_entries(source, &mut report);
    }
    let server = HandleConnection::open(connection)?;
    let journal = match journal_path(arguments) {
        Some(path) => Some(HandleBatchJournal::open(&path, &server.server)?),
        None => None,
    };
    let mut run = BatchRun { server, journal, report: BatchReport::new(connection.json) };
    let executed = run.execute_entries(source);
    run.report.finish()?;
    let BatchRun { server, journal, report } = run;
    server.close();
    executed?;
    let is_complete = report.counts.failed == 0;
    if let Some(journal) = journal.filter(|_| is_complete) {
        journal.remove()?;
    }
    Ok(if is_complete { CommandStatus::Success } else { CommandStatus::Negative })
}

fn journal_path(arguments: &BatchArguments) -> Option<PathBuf> {
    let beside = |file: &Path| {
        let mut name = file.as_os_str().to_owned();
        name.push(".journal");
        PathBuf::from(name)
    };
    match &arguments.journal {
        Some(path) => Some(path.clone()),
        None if arguments.no_journal || is_stdio(&arguments.file) => None,
        None => Some(beside(&arguments.file)),
    }
}

/// Parses all entries without executing them.
fn check_entries(source: ImportSource, report: &mut BatchReport) -> Result<CommandStatus, CliError> {
    let (name, reader) = source.into_parts();
    let mut entries = BatchReader::new(reader, &name).allow_files();
    while let Some(entry) = entries.next_entry()? {
        match &entry.operation {
            Ok(operation) => report.print(entry.line, Some(operation), EntryStatus::Valid, None, None)?,
            Err(error) => report.print(error.line, None, EntryStatus::Failed, None, Some(&error.reason))?,
        }
    }
    report.finish()?;
    Ok(if report.counts.failed == 0 { CommandStatus::Success } else { CommandStatus::Negative })
}

/// Prints results and counts them.
struct BatchReport {
    output: StdoutWriter,
    json: bool,
    counts: BatchCounts,
}

impl BatchReport {
    fn new(json: bool) -> Self {
        Self { output: StdoutWriter::new(), json, counts: BatchCounts::default() }
    }

    fn print(
        &mut self,
        line: u64,
        operation: Option<&BatchOperation>,
        status: EntryStatus,
        code: Option<ResponseCode>,
        message: Option<&str>,
    ) -> Result<(), CliError> {
        match status {
            EntryStatus::Done | EntryStatus::Valid => self.counts.done += 1,
            EntryStatus::Failed => self.counts.failed += 1,
            EntryStatus::Skipped => self.counts.skipped += 1,
        }
        let (keyword, handle) =
            (operation.map(BatchOperation::keyword), operation.map(BatchOperation::handle));
        if self.json {
            let code = code.map(|code| code.0);
            self.output.write_json(&EntryJson { line, operation: keyword, handle, status, code, message })?;
        } else {
            let keyword = keyword.map(|keyword| format!(": {keyword}")).unwrap_or_default();
            let handle = handle
                .filter(|handle| !handle.is_empty())
                .map(|handle| format!(" {}", escape_control(handle)));
            let message = message.map(|message| format!(": {}", escape_control(message))).unwrap_or_default();
            let handle = handle.unwrap_or_default();
            self.output
                .write_line(format_args!("line {line}{keyword}{handle}: {}{message}", status.text()))?;
        }
        // Each result is visible at once, also in a pipe.
        self.output.flush()
    }

    fn finish(&mut self) -> Result<(), CliError> {
        let BatchCounts { done, failed, skipped } = &self.counts;
        let skipped = if *skipped > 0 { format!(", {skipped} skipped (done before)") } else { String::new() };
        eprint_line(format_args!("{done} done, {failed} failed{skipped}"));
        self.output.flush()
    }
}

/// Execution of a batch.
struct BatchRun {
    server: HandleConnection,
    journal: Option<HandleBatchJournal>,
    report: BatchReport,
}

/// Number of attempts if the server is busy, and the delay before the second; it doubles each time.
const MAX_ATTEMPTS: u32 = 6;
const RETRY_DELAY: Duration = Duration::from_millis(250);

impl BatchRun {
    fn execute_entries(&mut self, source: ImportSource) -> Result<(), CliError> {
        let (name, reader) = source.into_parts();
        let mut entries = BatchReader::new(reader, &name).allow_files();
        while let Some(entry) = entries.next_entry()? {
            let line = entry.line;
            let operation = match entry.operation {
                Ok(operation) => operation,
                // Otherwise the following entries would be sent with the identity before.
                Err(error) if error.is_authentication => {
                    return Err(self.stop(line, &format!("cannot authenticate: {}", error.reason)));
                }
                Err(error) => {
                    self.report.print(error.line, None, EntryStatus::Failed, None, Some(&error.reason))?;
                    continue;
                }
            };
            match &operation {
                BatchOperation::Authenticate(identity) => {
                    let authenticated =
                        batch_identity(identity).and_then(|identity| self.server.authenticate(identity));
                    if let Err(error) = authenticated {
                        return Err(self.stop(line, &format!("cannot authenticate: {error}")));
                    }
                }
                BatchOperation::SessionSetup => {
                    eprint_line(format_args!(
                        "note: line {line}: SESSIONSETUP skipped; sessions are used with `--server-key`"
                    ));
                }
                operation => self.execute_entry(line, &entry.digest, operation)?,
            }
        }
        Ok(())
    }

    fn execute_entry(&mut self, line: u64, digest: &str, operation: &BatchOperation) -> Result<(), CliError> {
        let entry = self.journal.as_mut().map(|journal| journal.next_entry(digest));
        let state = entry.as_ref().map_or(EntryState::New, |entry| entry.state);
        if state == EntryState::Done {
            return self.report.print(line, Some(operation), EntryStatus::Skipped, None, None);
        }
        self.record(entry.as_ref(), line, JournalStatus::Started)?;
        let mut result = self.send_with_retries(operation);
        // A run that was interrupted after it sent the entry.
        if let (EntryState::InDoubt, Err(error)) = (state, &result)
            && self.was_applied(operation, error)
        {
            result = Ok(());
        }
        let error = match result {
            Ok(()) => {
                self.record(entry.as_ref(), line, JournalStatus::Done)?;
                return self.report.print(line, Some(operation), EntryStatus::Done, None, None);
            }
            Err(error) => error,
        };
        let reason = error.explain(operation.handle());
        match error {
            OperationError::Refused { code, .. } => {
                self.record(entry.as_ref(), line, JournalStatus::Failed)?;
                self.report.print(line, Some(operation), EntryStatus::Failed, Some(code), Some(&reason))
            }
            // In doubt: the next run finds out.
            OperationError::OutcomeUnknown(_) => Err(self.stop(line, &reason)),
            OperationError::Authentication(_) | OperationError::Failed(_) => {
                self.record(entry.as_ref(), line, JournalStatus::Failed)?;
                Err(self.stop(line, &reason))
            }
        }
    }

    fn record(
        &mut self,
        entry: Option<&JournalEntry>,
        line: u64,
        status: JournalStatus,
    ) -> Result<(), CliError> {
        match (&mut self.journal, entry) {
            (Some(journal), Some(entry)) => journal.record(entry, line, status),
            _ => Ok(()),
        }
    }

    /// Error that ends the batch before its end.
    fn stop(&self, line: u64, reason: &str) -> CliError {
        CliError::new(format!("batch stopped at line {line}: {reason}")).with_hint(match &self.journal {
            Some(_) => "run the same command again to execute the rest",
            None => "a batch with a journal can be resumed; see `--journal`",
        })
    }

    fn send_with_retries(&mut self, operation: &BatchOperation) -> Result<(), OperationError> {
        let mut delay = RETRY_DELAY;
        for _ in 1..MAX_ATTEMPTS {
            match self.send(operation) {
                Err(error) if error.code() == Some(ResponseCode::SERVER_TOO_BUSY) => thread::sleep(delay),
                result => return result,
            }
            delay *= 2;
        }
        self.send(operation)
    }

    fn send(&mut self, operation: &BatchOperation) -> Result<(), OperationError> {
        let (server, handle) = (&mut self.server, operation.handle());
        match operation {
            BatchOperation::Create(record) => server.create(handle, &record.values, false),
            BatchOperation::Add(record) => server.add_values(handle, &record.values, false),
            BatchOperation::Modify(record) => server.modify_values(handle, &record.values),
            BatchOperation::Remove { indexes, .. } => server.remove_values(handle, indexes),
            BatchOperation::Delete { .. } => server.delete(handle),
            BatchOperation::Home { .. } => server.home(handle),
            BatchOperation::Unhome { .. } => server.unhome(handle),
            BatchOperation::Authenticate(_) | BatchOperation::SessionSetup => Ok(()),
        }
    }

    /// Whether the error of an entry that was sent before means that it was applied then.
    fn was_applied(&mut self, operation: &BatchOperation, error: &OperationError) -> bool {
        let Some(code) = error.code() else { return false };
        match (operation, code) {
            (BatchOperation::Delete { .. }, ResponseCode::HANDLE_NOT_FOUND)
            | (BatchOperation::Remove { .. }, ResponseCode::VALUES_NOT_FOUND) => true,
            (BatchOperation::Create(record), ResponseCode::HANDLE_ALREADY_EXISTS)
            | (BatchOperation::Add(record), ResponseCode::VALUE_ALREADY_EXISTS) => {
                let indexes = record.values.iter().map(|value| value.index).collect();
                let options = ResolveOptions { indexes, is_authoritative: true, ..ResolveOptions::default() };
                let stored = self.server.resolve(operation.handle(), &options).unwrap_or_default();
                record.values.iter().all(|value| stored.iter().any(|stored| is_same_value(stored, value)))
            }
            _ => false,
        }
    }
}

/// Whether two values are equal except for their timestamps, which the server sets.
fn is_same_value(stored: &HandleValue<'_>, value: &HandleValue<'_>) -> bool {
    *stored == HandleValue { timestamp: stored.timestamp, ..value.clone() }
}
