//! `tendot import`

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tendot_store::{Batch, ImportError, ImportSummary, EmbeddedImporter, PostgresImporter};
use tokio::runtime::Runtime;

use crate::args::ImportArguments;
use crate::failure::tell_that_input_is_awaited;
use crate::import::{self, Format, Piece, Report, Source, Taken};
use crate::site::joined_site;
use crate::store::{
    BYTES, Place, RECORDS, few_connections, is_standard, open_postgres, progress, runtime, unopened, unread,
};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ImportArguments) -> Result<Answer, Failure> {
    let place = arguments.store.place()?;
    let standard_input = [PathBuf::from("-")];
    let paths = if arguments.files.is_empty() { &standard_input[..] } else { &arguments.files };
    if paths.iter().any(|path| is_standard(path)) {
        tell_that_input_is_awaited();
    }
    // All of them are opened before anything is done, so that a wrong name does no half of the work.
    let mut sources = Vec::new();
    for path in paths {
        let mut source = Source::open(path)?;
        let format = arguments.format.map_or_else(|| Format::guess(path, &mut source), Ok)?;
        sources.push((source, format));
    }
    let importer = if arguments.dry_run { None } else { Some(StoreImporter::open(&place)?) };
    let size = sources.iter().map(|(source, _)| source.size).sum();
    let report = Report::new(progress(size, BYTES));
    let share = match &arguments.site {
        Some(site) => joined_site(&arguments.store.own_directory()?, site)?.share(),
        None => None,
    };
    let taken = Taken { homes: !arguments.no_home, share };
    let mut run = Run { importer, report, read: 0 };
    for (source, format) in sources {
        let name = source.name().to_owned();
        let source = source.watched(&run.report.progress);
        import::read(source, format, taken, |piece| run.take(&name, &piece))?;
    }
    run.finish(arguments.json)
}

/// An import into a store of either kind.
enum StoreImporter {
    Directory(Box<EmbeddedImporter>),
    Database(Box<PostgresImporter>, Runtime),
}

impl StoreImporter {
    fn open(place: &Place) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match place {
            Place::Directory(directory) => {
                let importer = EmbeddedImporter::open(directory, "import", now).map_err(|error| unopened(&error))?;
                Ok(Self::Directory(Box::new(importer)))
            }
            Place::Database(address) => {
                let runtime = runtime()?;
                let importer = runtime.block_on(async {
                    let store = open_postgres(address, &few_connections()).await?;
                    store.importer("import", now).map_err(|error| failed(&error))
                })?;
                Ok(Self::Database(Box::new(importer), runtime))
            }
        }
    }

    fn put_all(&mut self, batch: &Batch) -> Result<(), ImportError> {
        match self {
            Self::Directory(importer) => importer.put_all(batch),
            Self::Database(importer, _) => importer.put_all(batch),
        }
    }

    fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        match self {
            Self::Directory(importer) => importer.home(prefix),
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

struct Run {
    /// None if nothing is to be written.
    importer: Option<StoreImporter>,
    report: Report,
    read: u64,
}

impl Run {
    fn take(&mut self, source: &str, piece: &Piece) -> Result<(), Failure> {
        self.report.tell(source, piece);
        self.read += piece.batch.len() as u64;
        let Some(importer) = &mut self.importer else { return Ok(()) };
        importer.put_all(&piece.batch).map_err(|error| failed(&error))?;
        piece.homes.iter().try_for_each(|prefix| importer.home(prefix)).map_err(|error| failed(&error))
    }

    fn finish(self, json: bool) -> Result<Answer, Failure> {
        let Self { importer, mut report, read, .. } = self;
        let imported = match importer {
            None => None,
            Some(importer) => {
                report.progress.finish_and_clear();
                report.progress = progress(read, RECORDS);
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
        report.finish(imported.as_ref(), read, json)?;
        Ok(if report.has_refusals() { Answer::No } else { Answer::Yes })
    }
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::Store(error) => unread(error),
        error => Failure::new(error.to_string()),
    }
}
