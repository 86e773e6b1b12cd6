//! `tendot import`

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tendot_store::{EmbeddedImporter, ImportBatch, ImportError, ImportSummary, PostgresImporter};
use tokio::runtime::Runtime;

use crate::args::ImportArguments;
use crate::failure::eprint_stdin_notice;
use crate::import::{self, ImportChunk, ImportFormat, ImportOptions, ImportReport, ImportSource};
use crate::site::load_combined_site;
use crate::store::{
    BYTE_PROGRESS, RECORD_PROGRESS, StoreLocation, few_connections, is_stdio, multi_thread, open_error,
    open_postgres, progress_bar, read_error,
};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &ImportArguments) -> Result<CommandStatus, CliError> {
    let place = arguments.store.location()?;
    let standard_input = [PathBuf::from("-")];
    let paths = if arguments.files.is_empty() { &standard_input[..] } else { &arguments.files };
    if paths.iter().any(|path| is_stdio(path)) {
        eprint_stdin_notice();
    }
    // All of them are opened before anything is done, so that a wrong name does no half of the work.
    let mut sources = Vec::new();
    for path in paths {
        let mut source = ImportSource::open(path)?;
        let format = arguments.format.map_or_else(|| ImportFormat::detect(path, &mut source), Ok)?;
        sources.push((source, format));
    }
    let importer = if arguments.dry_run { None } else { Some(StoreImporter::open(&place)?) };
    let size = sources.iter().map(|(source, _)| source.size).sum();
    let report = ImportReport::new(progress_bar(size, BYTE_PROGRESS));
    let share = match &arguments.site {
        Some(site) => load_combined_site(&arguments.store.own_directory()?, site)?.partition(),
        None => None,
    };
    let taken = ImportOptions { homes: !arguments.no_home, share };
    let mut run = ImportRun { importer, report, read: 0 };
    for (source, format) in sources {
        let name = source.name().to_owned();
        let source = source.with_progress(&run.report.progress);
        import::read_chunks(source, format, taken, |piece| run.write_chunk(&name, &piece))?;
    }
    run.finish(arguments.json)
}

/// An import into a store of either kind.
enum StoreImporter {
    Directory(Box<EmbeddedImporter>),
    Database(Box<PostgresImporter>, Runtime),
}

impl StoreImporter {
    fn open(place: &StoreLocation) -> Result<Self, CliError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match place {
            StoreLocation::Directory(directory) => {
                let importer =
                    EmbeddedImporter::open(directory, "import", now).map_err(|error| open_error(&error))?;
                Ok(Self::Directory(Box::new(importer)))
            }
            StoreLocation::Database(address) => {
                let runtime = multi_thread()?;
                let importer = runtime.block_on(async {
                    let store = open_postgres(address, &few_connections()).await?;
                    store.importer("import", now).map_err(|error| failed(&error))
                })?;
                Ok(Self::Database(Box::new(importer), runtime))
            }
        }
    }

    fn put_all(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        match self {
            Self::Directory(importer) => importer.add_batch(batch),
            Self::Database(importer, _) => importer.put_all(batch),
        }
    }

    fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        match self {
            Self::Directory(importer) => importer.home_prefix(prefix),
            Self::Database(importer, _) => importer.home(prefix),
        }
    }

    fn finish(self, progress: impl FnMut(&ImportSummary)) -> Result<ImportSummary, ImportError> {
        match self {
            Self::Directory(importer) => importer.finish(progress),
            Self::Database(importer, runtime) => runtime.block_on(importer.finish(progress)),
        }
    }
}

/// State of one import.
struct ImportRun {
    /// None if nothing is to be written.
    importer: Option<StoreImporter>,
    report: ImportReport,
    read: u64,
}

impl ImportRun {
    fn write_chunk(&mut self, source: &str, piece: &ImportChunk) -> Result<(), CliError> {
        self.report.print_diagnostics(source, piece);
        self.read += piece.batch.len() as u64;
        let Some(importer) = &mut self.importer else { return Ok(()) };
        importer.put_all(&piece.batch).map_err(|error| failed(&error))?;
        piece.homes.iter().try_for_each(|prefix| importer.home(prefix)).map_err(|error| failed(&error))
    }

    fn finish(self, json: bool) -> Result<CommandStatus, CliError> {
        let Self { importer, mut report, read, .. } = self;
        let imported = match importer {
            None => None,
            Some(importer) => {
                report.progress.finish_and_clear();
                report.progress = progress_bar(read, RECORD_PROGRESS);
                let bar = report.progress.clone();
                let written = |imported: &ImportSummary| {
                    let ImportSummary { created, changed, unchanged, superseded, ended, .. } = imported;
                    bar.set_position(created + changed + unchanged + superseded + ended);
                };
                Some(importer.finish(written).map_err(|error| failed(&error))?)
            }
        };
        if let Some(imported) = &imported {
            report.print_retired(&imported.ended_names, imported.ended);
        }
        report.print_summary(imported.as_ref(), read, json)?;
        Ok(if report.has_refusals() { CommandStatus::No } else { CommandStatus::Yes })
    }
}

fn failed(error: &ImportError) -> CliError {
    match error {
        ImportError::Store(error) => read_error(error),
        error => CliError::new(error.to_string()),
    }
}
