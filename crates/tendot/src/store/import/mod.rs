//! `tendot import`: reads records in four formats, checks them, and writes them to a store.
//!
//! `source.rs` opens an input and detects its format; one file per format (`jsonl.rs`, `csv.rs`, `handle_net.rs`, `handle_batch.rs`);
//! `check.rs` refuses or warns; `chunk.rs` collects checked records; `record_editor.rs` applies the operations of a batch file that
//! are not bulk writes; `report.rs` prints diagnostics and counts.

mod check;
mod chunk;
mod csv;
mod handle_batch;
mod handle_net;
mod jsonl;
mod record_editor;
mod report;
mod source;

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use chunk::{ImportChunk, ImportOptions};
use clap::Args;
use record_editor::{EditOutcome, RecordEditor};
use report::ImportReport;
use source::ImportFormat;
pub(crate) use source::{ImportSource, unknown_format_error};
use tendot_names::InputForm;
use tendot_proto::record::HandleRecord;
use tendot_store::{EmbeddedImporter, ImportBatch, ImportError, ImportSummary, PostgresImporter};
use tokio::runtime::Runtime;

use crate::handle::batch_language::BatchOperation;
use crate::ordered_pool::{ResultSender, map_ordered};
use crate::site::load_combined_site;
use crate::store::{StoreArguments, StoreLocation, command_pool, open_error, open_postgres, read_error};
use crate::terminal::{
    BYTE_PROGRESS, RECORD_PROGRESS, eprint_stdin_notice, is_stdio, progress_bar, quote_input,
};
use crate::{CliError, CommandStatus, runtime};

/// Import records into a store
///
/// Accepts any handle name, with a warning if it is under a `10.` prefix and not a valid DOI. The formats of records are read
/// literally; in a CSV file, names in a written form such as `https://doi.org/…` are decoded. Preserves timestamps and the order of values, and homes the prefix of every record. A line that is
/// not a record, or could break a response, is refused and reported; the other records are imported. Stop the server first,
/// unless the store is PostgreSQL.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot import records.jsonl
  tendot export --data old | tendot import --data new
  tendot import --dry-run names.csv
  tendot import --format handle-net dump.json
  tendot import --format handle-batch changes.txt
  tendot import --store postgres://tendot@db.example.org/tendot records.jsonl

The header row of a CSV file names its columns: name (or doi, handle) and url; without one they are name,url. Fields are
separated by commas, semicolons or tabs.

The default format depends on the file name: csv for *.csv and *.tsv, handle-batch for *.txt, handle-net for *.json with a
Handle.Net dump, otherwise jsonl.

Exit codes: 0 success, 1 some records were refused, 2 error (run the same command again to import the rest)")]
pub(crate) struct ImportArguments {
    /// Input files; `-` is standard input [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Input format [default: from the file name]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<ImportFormat>,

    /// Check the input without writing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Refuse records whose names under `10.` prefixes are not valid DOIs; without it, they are imported with a warning
    #[arg(long)]
    pub(crate) strict: bool,

    /// Do not home the prefixes of the imported records
    #[arg(long)]
    pub(crate) no_home: bool,

    /// Import only the records that this server is responsible for, by the site record in FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: read, created, changed, unchanged, deleted, superseded, refused, warnings, seconds; if there are any,
    /// decoded (names in a written form) and other_servers (with `--site`)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ImportArguments) -> Result<CommandStatus, CliError> {
    let target = arguments.store.locate()?;
    let standard_input = [PathBuf::from("-")];
    let paths = if arguments.files.is_empty() { &standard_input[..] } else { &arguments.files };
    if paths.iter().any(|path| is_stdio(path)) {
        eprint_stdin_notice();
    }
    // Open all files before importing any, so that a wrong path fails early.
    let mut sources = Vec::new();
    for path in paths {
        let mut source = ImportSource::open(path)?;
        let format = arguments.format.map_or_else(|| ImportFormat::detect(path, &mut source), Ok)?;
        sources.push((source, format));
    }
    let importer = if arguments.dry_run { None } else { Some(StoreImporter::open(&target.location)?) };
    let size = sources.iter().map(|(source, _)| source.size).sum();
    let report = ImportReport::new(progress_bar(size, BYTE_PROGRESS));
    let partition = match &arguments.site {
        Some(site) => load_combined_site(&target.data_dir, site)?.partition(),
        None => None,
    };
    let options = ImportOptions { home_prefixes: !arguments.no_home, partition, is_strict: arguments.strict };
    let location = (!arguments.dry_run).then_some(&target.location);
    let mut run = ImportRun {
        location,
        importer,
        has_records: false,
        editor: None,
        report,
        imported: ImportSummary::default(),
        deleted: 0,
        read: 0,
    };
    for (source, format) in sources {
        let name = source.name().to_owned();
        let source = source.with_progress(&run.report.progress);
        read_chunks(source, format, options, |chunk| run.write_chunk(&name, &chunk))?;
    }
    run.finish(arguments.json)
}

/// Importer of either kind of store.
enum StoreImporter {
    Embedded(Box<EmbeddedImporter>),
    Postgres(Box<PostgresImporter>, Runtime),
}

impl StoreImporter {
    fn open(location: &StoreLocation) -> Result<Self, CliError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match location {
            StoreLocation::Embedded(directory) => {
                let importer =
                    EmbeddedImporter::open(directory, "import", now).map_err(|error| open_error(&error))?;
                Ok(Self::Embedded(Box::new(importer)))
            }
            StoreLocation::Postgres(address) => {
                let runtime = runtime::multi_thread(1)?;
                let importer = runtime.block_on(async {
                    let store = open_postgres(address, &command_pool()).await?;
                    store.start_import("import", now).map_err(|error| import_error(&error))
                })?;
                Ok(Self::Postgres(Box::new(importer), runtime))
            }
        }
    }

    fn put_all(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        match self {
            Self::Embedded(importer) => importer.add_batch(batch),
            Self::Postgres(importer, _) => importer.add_batch(batch),
        }
    }

    fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        match self {
            Self::Embedded(importer) => importer.home_prefix(prefix),
            Self::Postgres(importer, _) => importer.home_prefix(prefix),
        }
    }

    fn finish(self, progress: impl FnMut(&ImportSummary)) -> Result<ImportSummary, ImportError> {
        match self {
            Self::Embedded(importer) => importer.finish(progress),
            Self::Postgres(importer, runtime) => runtime.block_on(importer.finish(progress)),
        }
    }
}

/// State of one import.
struct ImportRun<'a> {
    /// Store; none for a dry run.
    location: Option<&'a StoreLocation>,
    /// Bulk writer; none while operations are applied.
    importer: Option<StoreImporter>,
    /// Whether the importer has anything to write.
    has_records: bool,
    /// Writer of single operations; none while records are imported.
    editor: Option<RecordEditor>,
    report: ImportReport,
    imported: ImportSummary,
    deleted: u64,
    read: u64,
}

impl ImportRun<'_> {
    fn write_chunk(&mut self, source: &str, chunk: &ImportChunk) -> Result<(), CliError> {
        self.report.print_diagnostics(source, chunk);
        self.read += (chunk.batch.len() + chunk.operations.len()) as u64;
        let Some(location) = self.location else { return Ok(()) };
        if !chunk.operations.is_empty() {
            return self.apply_operations(source, chunk, location);
        }
        if chunk.batch.is_empty() && chunk.prefixes.is_empty() {
            return Ok(());
        }
        // Only one of them can have the store open.
        self.editor = None;
        let importer = match &mut self.importer {
            Some(importer) => importer,
            none => none.insert(StoreImporter::open(location)?),
        };
        self.has_records = true;
        importer.put_all(&chunk.batch).map_err(|error| import_error(&error))?;
        chunk
            .prefixes
            .iter()
            .try_for_each(|prefix| importer.home(prefix))
            .map_err(|error| import_error(&error))
    }

    fn apply_operations(
        &mut self,
        source: &str,
        chunk: &ImportChunk,
        location: &StoreLocation,
    ) -> Result<(), CliError> {
        self.finish_bulk_import()?;
        let editor = match &mut self.editor {
            Some(editor) => editor,
            none => none.insert(RecordEditor::open(location)?),
        };
        for (line, operation) in &chunk.operations {
            match editor.apply(operation)? {
                Ok(EditOutcome::Changed) => self.imported.changed += 1,
                Ok(EditOutcome::Unchanged) => self.imported.unchanged += 1,
                Ok(EditOutcome::Deleted) => self.deleted += 1,
                Ok(EditOutcome::Unhomed) => {}
                Err(reason) => {
                    let handle = quote_input(operation.handle().as_bytes());
                    self.report.refuse(
                        source,
                        *line,
                        &format!("{} `{handle}`: {reason}", operation.keyword()),
                    );
                }
            }
        }
        Ok(())
    }

    /// Writes the collected records.
    fn finish_bulk_import(&mut self) -> Result<(), CliError> {
        let Some(importer) = self.importer.take() else { return Ok(()) };
        if !std::mem::take(&mut self.has_records) {
            return Ok(());
        }
        self.report.progress.finish_and_clear();
        self.report.progress = progress_bar(self.read, RECORD_PROGRESS);
        let bar = self.report.progress.clone();
        let show_progress = |imported: &ImportSummary| {
            let ImportSummary { created, changed, unchanged, superseded, tombstoned, .. } = imported;
            bar.set_position(created + changed + unchanged + superseded + tombstoned);
        };
        self.imported.merge(importer.finish(show_progress).map_err(|error| import_error(&error))?);
        Ok(())
    }

    fn finish(mut self, json: bool) -> Result<CommandStatus, CliError> {
        self.finish_bulk_import()?;
        self.editor = None;
        let Self { location, mut report, imported, deleted, read, .. } = self;
        report.print_retired(&imported.tombstoned_names, imported.tombstoned);
        report.print_summary(location.map(|_| &imported), read, deleted, json)?;
        Ok(if report.has_refusals() { CommandStatus::Negative } else { CommandStatus::Success })
    }
}

fn import_error(error: &ImportError) -> CliError {
    match error {
        ImportError::Store(error) => read_error(error),
        error => CliError::new(error.to_string()),
    }
}

/// One record, prefix or refusal read from a source.
pub(crate) enum ImportItem {
    /// Record, not checked yet.
    Record(HandleRecord<'static>),
    /// Record whose name was decoded from a written form.
    DecodedRecord {
        /// Record, not checked yet.
        record: HandleRecord<'static>,
        /// Name as it was written.
        written: String,
        /// Form in which it was written.
        form: InputForm,
    },
    /// Prefix to home.
    HomePrefix(String),
    /// Operation on an existing record, or the unhoming of a prefix.
    Operation(BatchOperation),
    /// Input without effect on the store.
    Note(String),
    /// Invalid input, and the reason.
    Refused(String),
}

/// Callback for items, with the line they begin at.
pub(crate) type ItemSink<'a> = dyn FnMut(u64, ImportItem) -> Result<(), CliError> + 'a;

/// Maximum size of one record in the input; bounds memory.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// Maximum number of parser threads; more would outrun the thread that writes.
const MAX_PARSER_THREADS: usize = 4;

/// Reads a source and passes its chunks to `take` in order.
pub(crate) fn read_chunks(
    source: ImportSource,
    format: ImportFormat,
    options: ImportOptions,
    mut take: impl FnMut(ImportChunk) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let read = match format {
        ImportFormat::Jsonl => {
            let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_PARSER_THREADS);
            let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
            // Sending fails only after the import has failed.
            let parse = |block: Result<jsonl::LineBlock, CliError>, chunks: &ResultSender<_>| {
                let _ = chunks.send(block.map(|block| block.parse(options)));
            };
            return map_ordered(threads, jsonl::line_blocks(source), parse, |chunk| take(chunk?));
        }
        ImportFormat::Csv => csv::read,
        ImportFormat::HandleNet => handle_net::read,
        ImportFormat::HandleBatch => handle_batch::read,
    };
    // These formats are parsed by one thread, in parallel with the writer.
    let parse = |source: ImportSource, chunks: &ResultSender<_>| {
        let mut chunk = ImportChunk::new(options);
        let read = read(source, &mut |line, item| {
            if chunk.must_end_before(&item) {
                let ended = std::mem::replace(&mut chunk, ImportChunk::new(options));
                chunks.send(Ok(ended)).map_err(|_| CliError::new("import stopped"))?;
            }
            chunk.push(line, item);
            if chunk.is_full() {
                let full = std::mem::replace(&mut chunk, ImportChunk::new(options));
                chunks.send(Ok(full)).map_err(|_| CliError::new("import stopped"))?;
            }
            Ok(())
        });
        let _ = chunks.send(Ok(chunk)).and_then(|()| read.map_or_else(|error| chunks.send(Err(error)), Ok));
    };
    map_ordered(NonZero::<usize>::MIN, std::iter::once(source), parse, |chunk| take(chunk?))
}
