//! `tendot export`: writes all records as JSON lines, CSV, or in a format of Handle.Net (`record_writer.rs`).

mod record_writer;

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use record_writer::{OmissionCounts, RecordWriter};
use tendot_proto::Handle;
use tendot_registry::party::is_reserved_prefix;
use tendot_registry::registration::is_reserved;
use tendot_store::{AnyStore, NameKey, PostgresSettings, RecordStatus, Store, StoreError, StoredRecord};
use tokio::runtime::Runtime;

use super::{
    CommandStore, StoreArguments, StoreLocation, command_pool, open_postgres, open_read_only, read_error,
};
use crate::atomic_file::AtomicFile;
use crate::terminal::{RECORD_PROGRESS, eprint_line, eprint_warning, is_stdio, progress_bar};
use crate::{CliError, CommandStatus, runtime};

/// Export all records of a store
///
/// Writes one JSON object per line, ordered by name, with all values, including non-public ones such as keys and passwords.
/// `handle-net` and `handle-batch` are read by Handle.Net's tools. Works while a server is running. An existing file is replaced when the export is complete.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot export > records.jsonl
  tendot export --data /var/lib/tendot records.jsonl
  tendot export --format csv | head
  tendot export --format handle-net dump.json
  tendot export --store postgres://tendot@db.example.org/tendot > records.jsonl

Exit codes: 0 success, 1 a batch file cannot express some values or records, 2 error")]
pub(crate) struct ExportArguments {
    /// Output file; `-` is standard output [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl", help_heading = "Output")]
    pub(crate) format: ExportFormat,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Accepted for consistency; the default output is JSON
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,
}

/// Output format of `tendot export`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// one JSON object per line: `{"handle": …, "values": […]}`
    Jsonl,
    /// name and first URL; records without a URL are skipped
    Csv,
    /// JSON dump of Handle.Net, as its `StorageToJson` writes it: homed prefixes and records
    HandleNet,
    /// batch file of Handle.Net with a `CREATE` entry per record; only text, lists and administrators
    HandleBatch,
}

/// Records read per transaction; short transactions let a concurrent writer reuse old pages.
const PAGE_RECORDS: usize = 1_000;

/// Bytes of values per transaction, after which it ends.
const PAGE_BYTES: usize = 4 << 20;

pub(crate) fn run(arguments: &ExportArguments) -> Result<CommandStatus, CliError> {
    let runtime = runtime::multi_thread(1)?;
    let source = arguments.store.locate()?;
    let store = match &source.location {
        StoreLocation::Embedded(directory) => open_read_only(directory)?.into(),
        StoreLocation::Postgres(address) => {
            let settings = PostgresSettings { migrate_schema: false, ..command_pool() };
            runtime.block_on(open_postgres(address, &settings))?.into()
        }
    };
    export_store(arguments, &runtime, &source, &store)
}

fn export_store(
    arguments: &ExportArguments,
    runtime: &Runtime,
    source: &CommandStore,
    store: &AnyStore,
) -> Result<CommandStatus, CliError> {
    let bar = || {
        let size = runtime.block_on(store.name_count()).map_err(|error| read_error(&error))?;
        Ok::<_, CliError>(size.map_or_else(ProgressBar::hidden, |size| progress_bar(size, RECORD_PROGRESS)))
    };
    let omitted = match arguments.file.as_deref().filter(|file| !is_stdio(file)) {
        None => {
            // No progress bar when the records are printed to a terminal.
            let is_terminal = io::stdout().is_terminal();
            let bar = if is_terminal { ProgressBar::hidden() } else { bar()? };
            write_records(runtime, store, arguments.format, &bar, "standard output", io::stdout().lock())?
        }
        Some(path) => {
            source.ensure_not_store_file(path)?;
            let mut file = AtomicFile::create(path)?;
            let target = format!("`{}`", path.display());
            let omitted = write_records(runtime, store, arguments.format, &bar()?, &target, file.file())?;
            file.commit()?;
            omitted
        }
    };
    Ok(report(&omitted))
}

/// Reports what the format cannot express. A CSV file is meant to have URLs only.
fn report(omitted: &OmissionCounts) -> CommandStatus {
    let OmissionCounts { without_url, values, records } = *omitted;
    if without_url > 0 {
        eprint_line(format_args!("skipped {without_url} records without a URL"));
    }
    if values == 0 && records == 0 {
        return CommandStatus::Success;
    }
    eprint_warning(&format!(
        "omitted {values} values and {records} records that a batch file cannot express; `--format handle-net` has all"
    ));
    CommandStatus::Negative
}

fn write_records(
    runtime: &Runtime,
    store: &AnyStore,
    format: ExportFormat,
    bar: &ProgressBar,
    target: &str,
    output: impl Write,
) -> Result<OmissionCounts, CliError> {
    let write_error = |error: &io::Error| CliError::io(format!("cannot write {target}"), error);
    let mut writer = RecordWriter::new(format, BufWriter::with_capacity(1 << 18, output));
    writer.begin().map_err(|error| write_error(&error))?;
    if matches!(format, ExportFormat::HandleNet) {
        let mut after: Option<Box<str>> = None;
        loop {
            let page = store.list_homed(after.as_deref().map(str::as_bytes), PAGE_RECORDS);
            let prefixes = runtime.block_on(page).map_err(|error| read_error(&error))?;
            let Some(last) = prefixes.last() else { break };
            after = Some(last.clone());
            for prefix in prefixes.iter().filter(|prefix| !is_reserved_prefix(prefix.as_bytes())) {
                writer.write_prefix(prefix).map_err(|error| write_error(&error))?;
            }
        }
        writer.end_prefixes().map_err(|error| write_error(&error))?;
    }
    let mut after = None;
    loop {
        let entries =
            runtime.block_on(next_page(store, after.as_ref())).map_err(|error| read_error(&error))?;
        let Some(last) = entries.last() else { break };
        after = Some(NameKey::new(&last.name).map_err(|error| CliError::new(error.to_string()))?);
        bar.inc(entries.len() as u64);
        for entry in entries.into_iter().filter(is_exported) {
            writer.write(entry).map_err(|error| write_error(&error))?;
        }
    }
    let omitted = writer.finish().map_err(|error| write_error(&error))?;
    bar.finish_and_clear();
    Ok(omitted)
}

/// Reads the next records; empty at the end.
async fn next_page(store: &AnyStore, after: Option<&NameKey>) -> Result<Vec<StoredRecord>, StoreError> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    let visit = |entry: &StoredRecord| {
        bytes += entry.values.iter().map(|value| value.data.len()).sum::<usize>();
        entries.push(entry.clone());
        entries.len() < PAGE_RECORDS && bytes < PAGE_BYTES
    };
    store.scan_records(None, after, visit).await?;
    Ok(entries)
}

/// False for tombstones, internal records and reserved names: an import would make them public.
fn is_exported(entry: &StoredRecord) -> bool {
    let is_internal = is_reserved_prefix(Handle::from(&*entry.name).prefix());
    entry.status == RecordStatus::Live && !is_internal && !is_reserved(entry)
}
