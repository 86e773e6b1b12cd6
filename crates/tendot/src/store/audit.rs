//! `tendot audit`: the change log as a file that can be verified without the store.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use tendot_store::{
    AnyStore, ChainLink, EditKind, LogEntry, LogHash, LogVerifier, PostgresSettings, Store as _, VerifyReport,
};
use tokio::runtime::Runtime;

use super::{StoreArguments, StoreLocation, command_pool, open_postgres, open_read_only, read_error};
use crate::atomic_file::AtomicFile;
use crate::line_reader::LineReader;
use crate::terminal::{StdoutWriter, eprint_line, escape_control, is_stdio};
use crate::{CliError, CommandStatus, runtime};

/// Export and verify the change log as tamper-evident archive
///
/// Each log entry carries the hash of the one before and a digest of its content, so that no entry can be changed, removed or
/// inserted without breaking the chain. A program that can write to the store could compute a new chain: keep the archive, or the
/// last hash, where the server cannot write.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot audit export audit.jsonl
  tendot audit export --after 18230 audit-2.jsonl
  tendot audit verify audit.jsonl audit-2.jsonl
  tendot audit compare --data /var/lib/tendot audit.jsonl

Exit codes: 0 success, 1 the chain is broken or the log differs, 2 error")]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Write the change log as JSON lines
    ///
    /// Works while a server is running. An existing file is replaced when the export is complete.
    Export {
        /// Output file; `-` is standard output [default: -]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Only entries after this sequence number, to continue an archive
        #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
        after: u64,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Verify the hash chain of exported files
    ///
    /// Several files are one log, in order. The first one may begin at any entry.
    Verify {
        /// Exported files; `-` is standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Print JSON: one object per fault, then one with the result
        #[arg(long, help_heading = "Output")]
        json: bool,
    },
    /// Verify exported files, and that the change log of the store has the same entries
    ///
    /// Works while a server is running. The store may have more entries.
    Compare {
        /// Exported files; `-` is standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        store: StoreArguments,
        /// Print JSON: one object per fault, then one with the result
        #[arg(long, help_heading = "Output")]
        json: bool,
    },
}

/// Entries read per transaction; short transactions let a concurrent writer reuse old pages.
const PAGE_ENTRIES: usize = 1_000;

/// Maximum length of a line: an entry with the longest name and author is shorter.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Line of an archive.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AuditLine<'a> {
    sequence: u64,
    revision: u64,
    /// Milliseconds since 1970.
    time_ms: u64,
    #[serde(borrow)]
    author: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    /// Number of records of an import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    previous_hash: String,
    content_digest: String,
    hash: String,
}

impl<'a> AuditLine<'a> {
    fn of(entry: &'a LogEntry) -> Self {
        Self {
            sequence: entry.sequence,
            revision: entry.revision,
            time_ms: entry.timestamp_ms,
            author: (&*entry.author).into(),
            kind: entry.kind.as_str().into(),
            name: (&*entry.name).into(),
            records: (entry.kind == EditKind::Import).then_some(entry.record_count),
            previous_hash: entry.link.previous_hash.to_string(),
            content_digest: entry.link.content_digest.to_string(),
            hash: entry.link.hash().to_string(),
        }
    }

    /// Log entry; fails if a field or the hash of the entry is invalid.
    fn to_entry(&self) -> Result<LogEntry, String> {
        let hash = |text: &str| LogHash::from_hex(text).ok_or_else(|| format!("invalid hash `{text}`"));
        let link = ChainLink {
            previous_hash: hash(&self.previous_hash)?,
            content_digest: hash(&self.content_digest)?,
        };
        if hash(&self.hash)? != link.hash() {
            return Err("hash does not match previous hash and content digest".into());
        }
        let kind = EditKind::from_name(&self.kind).ok_or_else(|| format!("unknown kind `{}`", self.kind))?;
        Ok(LogEntry {
            sequence: self.sequence,
            revision: self.revision,
            timestamp_ms: self.time_ms,
            author: (&*self.author).into(),
            kind,
            name: (&*self.name).into(),
            record_count: self.records.unwrap_or(1),
            link,
        })
    }
}

/// Result of a verification.
#[derive(Serialize)]
struct AuditResult {
    entries: u64,
    first: u64,
    last: u64,
    hash: String,
    faults: u64,
}

pub(crate) fn run(arguments: &AuditArguments) -> Result<CommandStatus, CliError> {
    match &arguments.command {
        AuditCommand::Export { file, after, store } => export(file.as_deref(), *after, store),
        AuditCommand::Verify { files, json } => verify(files, None, *json),
        AuditCommand::Compare { files, store, json } => verify(files, Some(store), *json),
    }
}

fn open_store(runtime: &Runtime, location: &StoreLocation) -> Result<AnyStore, CliError> {
    Ok(match location {
        StoreLocation::Embedded(directory) => open_read_only(directory)?.into(),
        StoreLocation::Postgres(address) => {
            let settings = PostgresSettings { migrate_schema: false, ..command_pool() };
            runtime.block_on(open_postgres(address, &settings))?.into()
        }
    })
}

fn export(file: Option<&Path>, after: u64, store: &StoreArguments) -> Result<CommandStatus, CliError> {
    let runtime = runtime::multi_thread(1)?;
    let source = store.locate()?;
    let store = open_store(&runtime, &source.location)?;
    match file.filter(|file| !is_stdio(file)) {
        None => write_entries(&runtime, &store, after, "standard output", io::stdout().lock())?,
        Some(path) => {
            source.ensure_not_store_file(path)?;
            let mut file = AtomicFile::create(path)?;
            let target = format!("`{}`", path.display());
            write_entries(&runtime, &store, after, &target, file.file())?;
            file.commit()?;
        }
    }
    Ok(CommandStatus::Success)
}

fn write_entries(
    runtime: &Runtime,
    store: &AnyStore,
    mut after: u64,
    target: &str,
    output: impl Write,
) -> Result<(), CliError> {
    let write_error = |error: &io::Error| CliError::io(format!("cannot write {target}"), error);
    let mut output = BufWriter::with_capacity(1 << 18, output);
    let mut last = None;
    loop {
        let entries =
            runtime.block_on(store.read_log(after, PAGE_ENTRIES)).map_err(|error| read_error(&error))?;
        let Some(entry) = entries.last() else { break };
        after = entry.sequence;
        for entry in &entries {
            serde_json::to_writer(&mut output, &AuditLine::of(entry))
                .map_err(|error| write_error(&error.into()))?;
            output.write_all(b"\n").map_err(|error| write_error(&error))?;
        }
        last = Some(entry.link.hash());
    }
    output.flush().map_err(|error| write_error(&error))?;
    match last {
        Some(hash) => eprint_line(format_args!("last entry {after}, hash {hash}")),
        None => eprint_line(format_args!("no entries after {after}")),
    }
    Ok(())
}

fn verify(
    files: &[PathBuf],
    compared: Option<&StoreArguments>,
    json: bool,
) -> Result<CommandStatus, CliError> {
    let mut archive = ArchiveVerifier::default();
    for file in files {
        if is_stdio(file) {
            archive.read(io::stdin().lock(), "standard input")?;
        } else {
            let source = format!("`{}`", file.display());
            let open_error = |error| CliError::io(format!("cannot open {source}"), &error);
            archive.read(File::open(file).map_err(open_error)?, &source)?;
        }
    }
    let ArchiveVerifier { mut report, first, last, .. } = archive;
    let Some(last) = last else { return Err(CliError::new("no log entries")) };
    if let Some(store) = compared {
        compare(&last, store, &mut report)?;
    }
    let mut output = StdoutWriter::new();
    for fault in &report.errors {
        if json {
            output.write_json(&serde_json::json!({ "fault": fault }))?;
        } else {
            output.write_line(escape_control(fault))?;
        }
    }
    let (entries, faults, hash) = (report.log_entries, report.error_count, last.link.hash().to_string());
    let (first, last) = (first.unwrap_or_default(), last.sequence);
    if json {
        output.write_json(&AuditResult { entries, first, last, hash: hash.clone(), faults })?;
    }
    output.flush()?;
    if faults > 0 {
        eprint_line(format_args!("{entries} entries read, {faults} faults"));
        return Ok(CommandStatus::Negative);
    }
    eprint_line(format_args!("{entries} entries verified, {first} to {last}, last hash {hash}"));
    Ok(CommandStatus::Success)
}

/// Compares the last entry with that of the store: equal hashes prove that all entries before are equal, too.
fn compare(last: &LogEntry, store: &StoreArguments, report: &mut VerifyReport) -> Result<(), CliError> {
    let runtime = runtime::multi_thread(1)?;
    let store = open_store(&runtime, &store.locate()?.location)?;
    let sequence = last.sequence;
    let stored = runtime
        .block_on(store.read_log(sequence.saturating_sub(1), 1))
        .map_err(|error| read_error(&error))?;
    match stored.first().filter(|stored| stored.sequence == sequence) {
        None => report.add_error(format!("log entry {sequence} is not in the store")),
        Some(stored) if stored.link != last.link => {
            report.add_error(format!("log entry {sequence} has another hash in the store"));
        }
        Some(_) => {}
    }
    Ok(())
}

/// Verifies the chain of the lines of several files.
#[derive(Default)]
struct ArchiveVerifier {
    report: VerifyReport,
    verifier: Option<LogVerifier>,
    /// Sequence number of the first entry.
    first: Option<u64>,
    /// Last valid entry.
    last: Option<LogEntry>,
}

impl ArchiveVerifier {
    fn read(&mut self, input: impl io::Read, source: &str) -> Result<(), CliError> {
        let mut lines = LineReader::new(input, source, MAX_LINE_BYTES);
        let mut number = 0_u64;
        while let Some(line) = lines.next_line()? {
            number += 1;
            if line.is_empty() {
                continue;
            }
            let parsed: AuditLine<'_> = serde_json::from_slice(line)
                .map_err(|error| CliError::new(format!("{source}, line {number}: {error}")))?;
            let sequence = parsed.sequence;
            let verifier =
                self.verifier.get_or_insert_with(|| LogVerifier::starting_after(sequence.saturating_sub(1)));
            self.first.get_or_insert(sequence);
            let entry = parsed.to_entry();
            if let Ok(entry) = &entry {
                self.last = Some(entry.clone());
            }
            verifier.check(&mut self.report, sequence, entry);
        }
        Ok(())
    }
}
