//! `tendot export`: writes all records as JSON lines or CSV.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use tendot_proto::Handle;
use tendot_proto::record::HandleRecord;
use tendot_registry::party::is_reserved_prefix;
use tendot_registry::registration::is_reserved;
use tendot_store::{AnyStore, NameKey, PostgresSettings, RecordStatus, Store, StoreError, StoredRecord};
use tokio::runtime::Runtime;

use super::{
    CommandStore, StoreArguments, StoreLocation, command_pool, open_postgres, open_read_only, read_error,
};
use crate::atomic_file::AtomicFile;
use crate::csv::write_field;
use crate::terminal::{RECORD_PROGRESS, eprint_line, is_stdio, progress_bar};
use crate::{CliError, CommandStatus, runtime};

/// Export all records of a store
///
/// Writes one JSON object per line, ordered by name, with all values, including non-public ones such as keys and passwords.
/// Works while a server is running. An existing file is replaced when the export is complete.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot export > records.jsonl
  tendot export --data /var/lib/tendot records.jsonl
  tendot export --format csv | head
  tendot export --store postgres://tendot@db.example.org/tendot > records.jsonl

Exit codes: 0 success, 2 error")]
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
    match arguments.file.as_deref().filter(|file| !is_stdio(file)) {
        None => {
            // No progress bar when the records are printed to a terminal.
            let is_terminal = io::stdout().is_terminal();
            let bar = if is_terminal { ProgressBar::hidden() } else { bar()? };
            write_records(runtime, store, arguments.format, &bar, "standard output", io::stdout().lock())?;
        }
        Some(path) => {
            source.ensure_not_store_file(path)?;
            let mut file = AtomicFile::create(path)?;
            let target = format!("`{}`", path.display());
            write_records(runtime, store, arguments.format, &bar()?, &target, file.file())?;
            file.commit()?;
        }
    }
    Ok(CommandStatus::Success)
}

fn write_records(
    runtime: &Runtime,
    store: &AnyStore,
    format: ExportFormat,
    bar: &ProgressBar,
    target: &str,
    output: impl Write,
) -> Result<(), CliError> {
    let write_error = |error: &io::Error| CliError::io(format!("cannot write {target}"), error);
    let mut output = BufWriter::with_capacity(1 << 18, output);
    let mut skipped = 0_u64;
    let mut after = None;
    loop {
        let entries =
            runtime.block_on(next_page(store, after.as_ref())).map_err(|error| read_error(&error))?;
        let Some(last) = entries.last() else { break };
        after = Some(NameKey::new(&last.name).map_err(|error| CliError::new(error.to_string()))?);
        bar.inc(entries.len() as u64);
        for entry in entries.into_iter().filter(is_exported) {
            let written = match format {
                ExportFormat::Jsonl => write_json(&mut output, entry),
                ExportFormat::Csv => write_csv(&mut output, &entry, &mut skipped),
            };
            written.map_err(|error| write_error(&error))?;
        }
    }
    output.flush().map_err(|error| write_error(&error))?;
    bar.finish_and_clear();
    if skipped > 0 {
        eprint_line(format_args!("skipped {skipped} records without a URL"));
    }
    Ok(())
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

fn write_json(output: &mut impl Write, entry: StoredRecord) -> io::Result<()> {
    let record = HandleRecord { handle: entry.name.as_bytes().into(), values: entry.values };
    serde_json::to_writer(&mut *output, &record)?;
    output.write_all(b"\n")
}

/// Writes the name and its first URL; records without a URL are counted in `skipped`.
fn write_csv(output: &mut impl Write, entry: &StoredRecord, skipped: &mut u64) -> io::Result<()> {
    let url = entry.values.iter().find(|value| value.value_type.eq_ignore_ascii_case(b"URL"));
    let Some(url) = url else {
        *skipped += 1;
        return Ok(());
    };
    write_field(output, entry.name.as_bytes())?;
    output.write_all(b",")?;
    write_field(output, &url.data)?;
    output.write_all(b"\r\n")
}
