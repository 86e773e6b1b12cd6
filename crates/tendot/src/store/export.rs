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

use super::{StoreArguments, StoreLocation, command_pool, open_postgres, read_error};
use crate::atomic_file::AtomicFile;
use crate::terminal::{RECORD_PROGRESS, eprint_line, is_stdio, progress_bar};
use crate::{CliError, CommandStatus, runtime};

/// Prints all records of a store
///
/// One JSON object a line, in the order of names, with all values, also those that are not public: keys and passwords
/// are among them. Works beside a running server. A file is replaced only when all is written.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot export > records.jsonl
  tendot export --data /var/lib/tendot records.jsonl
  tendot export --format csv | head
  tendot export --store postgres://tendot@db.example.org/tendot > records.jsonl

Exit codes: 0 done, 2 it could not be carried out.")]
pub(crate) struct ExportArguments {
    /// Where to; `-` is standard output [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    pub(crate) format: ExportFormat,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Changes nothing: the records are JSON objects already
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// A format that records are printed in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// a JSON object a line: `{"handle": …, "values": […]}`
    Jsonl,
    /// name,url: the first URL; records that have none are left out and counted on stderr
    Csv,
}

/// Records read per transaction; short transactions let a concurrent writer reuse old pages.
const PAGE_RECORDS: usize = 1_000;

/// Bytes of values per transaction, after which it ends.
const PAGE_BYTES: usize = 4 << 20;

pub(crate) fn run(arguments: &ExportArguments) -> Result<CommandStatus, CliError> {
    let runtime = runtime::multi_thread(1)?;
    match arguments.store.location()? {
        StoreLocation::Embedded(_) => {
            export_store(arguments, &runtime, &arguments.store.open_read_only()?.into())
        }
        StoreLocation::Postgres(address) => {
            let settings = PostgresSettings { migrate_schema: false, ..command_pool() };
            let store = runtime.block_on(open_postgres(&address, &settings))?;
            export_store(arguments, &runtime, &store.into())
        }
    }
}

fn export_store(
    arguments: &ExportArguments,
    runtime: &Runtime,
    store: &AnyStore,
) -> Result<CommandStatus, CliError> {
    let bar = || {
        let size = runtime.block_on(store.name_count()).map_err(|error| read_error(&error))?;
        Ok::<_, CliError>(size.map_or_else(ProgressBar::hidden, |size| progress_bar(size, RECORD_PROGRESS)))
    };
    match arguments.file.as_deref().filter(|file| !is_stdio(file)) {
        None => {
            // No progress bar when the records are printed to a terminal.
            let is_watched = io::stdout().is_terminal();
            let bar = if is_watched { ProgressBar::hidden() } else { bar()? };
            write_records(runtime, store, arguments.format, &bar, "standard output", io::stdout().lock())?;
        }
        Some(path) => {
            arguments.store.ensure_not_store_file(path)?;
            let mut replacement = AtomicFile::create(path)?;
            let what = format!("`{}`", path.display());
            write_records(runtime, store, arguments.format, &bar()?, &what, replacement.file())?;
            replacement.commit()?;
        }
    }
    Ok(CommandStatus::Success)
}

fn write_records(
    runtime: &Runtime,
    store: &AnyStore,
    format: ExportFormat,
    bar: &ProgressBar,
    what: &str,
    output: impl Write,
) -> Result<(), CliError> {
    let unwritten = |error: &io::Error| CliError::io(format!("{what} can't be written"), error);
    let mut output = BufWriter::with_capacity(1 << 18, output);
    let mut left_out = 0_u64;
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
                ExportFormat::Csv => write_csv(&mut output, &entry, &mut left_out),
            };
            written.map_err(|error| unwritten(&error))?;
        }
    }
    output.flush().map_err(|error| unwritten(&error))?;
    bar.finish_and_clear();
    if left_out > 0 {
        eprint_line(format_args!("{left_out} records have no URL and were left out"));
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

/// False for tombstones, internal entries and reserved names: an import would make them public.
fn is_exported(entry: &StoredRecord) -> bool {
    let is_own = is_reserved_prefix(Handle::from(&*entry.name).prefix());
    entry.status == RecordStatus::Live && !is_own && !is_reserved(entry)
}

fn write_json(output: &mut impl Write, entry: StoredRecord) -> io::Result<()> {
    let record = HandleRecord { handle: entry.name.as_bytes().into(), values: entry.values };
    serde_json::to_writer(&mut *output, &record)?;
    output.write_all(b"\n")
}

/// Writes the name and its first URL; records without a URL are counted in `left_out`.
fn write_csv(output: &mut impl Write, entry: &StoredRecord, left_out: &mut u64) -> io::Result<()> {
    let url = entry.values.iter().find(|value| value.value_type.eq_ignore_ascii_case(b"URL"));
    let Some(url) = url else {
        *left_out += 1;
        return Ok(());
    };
    write_field(output, entry.name.as_bytes())?;
    output.write_all(b",")?;
    write_field(output, &url.data)?;
    output.write_all(b"\r\n")
}

/// Writes a CSV field, quoted if necessary (RFC 4180).
fn write_field(output: &mut impl Write, field: &[u8]) -> io::Result<()> {
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b',' | b'\r' | b'\n');
    // Many readers trim unquoted spaces and skip empty lines.
    let is_edged = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    if field.iter().all(is_plain) && !is_edged(field.first()) && !is_edged(field.last()) {
        return output.write_all(field);
    }
    output.write_all(b"\"")?;
    for (number, piece) in field.split(|byte| *byte == b'"').enumerate() {
        if number > 0 {
            output.write_all(b"\"\"")?;
        }
        output.write_all(piece)?;
    }
    output.write_all(b"\"")
}
