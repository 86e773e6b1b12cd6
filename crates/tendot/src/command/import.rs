//! `tendot import`

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tendot_proto::Handle;
use tendot_proto::record::Record;
use tendot_store::{ImportError, Imported, Importer};

use crate::args::ImportArguments;
use crate::failure::{shown, tell_that_input_is_awaited};
use crate::import::{self, Format, Item, Report, Source};
use crate::store::{BYTES, RECORDS, is_standard, progress, unopened, unread};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ImportArguments) -> Result<Answer, Failure> {
    let directory = arguments.store.directory()?;
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
    let importer = if arguments.dry_run {
        None
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Some(Importer::open(&directory, "import", now).map_err(|error| unopened(&error))?)
    };
    let size = sources.iter().map(|(source, _)| source.size).sum();
    let report = Report::new(progress(size, BYTES));
    let mut run = Run { importer, report, with_homes: !arguments.no_home, home: Vec::new(), read: 0 };
    for (source, format) in sources {
        let name = source.name().to_owned();
        let source = source.watched(&run.report.progress);
        import::read(source, format, &mut |line, item| run.take(&name, line, item))?;
    }
    run.finish(arguments.json)
}

struct Run {
    /// None if nothing is to be written.
    importer: Option<Importer>,
    report: Report,
    with_homes: bool,
    /// The prefix that was homed last; most records have the same one as the record before.
    home: Vec<u8>,
    read: u64,
}

impl Run {
    fn take(&mut self, source: &str, line: u64, item: Item) -> Result<(), Failure> {
        let place = || format!("{source}, line {line}");
        match item {
            Item::Refused(reason) => self.report.refuse(&place(), &reason),
            Item::Home(prefix) if !self.with_homes => drop(prefix),
            Item::Home(prefix) => {
                if prefix.is_empty() || prefix.contains('/') {
                    self.report.refuse(&place(), &format!("`{}` is no prefix", shown(prefix.as_bytes())));
                } else if let Some(importer) = &mut self.importer {
                    importer.home(&prefix).map_err(|error| failed(&error))?;
                }
            }
            Item::Record(record) => match import::check(&record) {
                Err(reason) => {
                    let name = shown(&record.handle);
                    self.report.refuse(&place(), &format!("`{name}`: {reason}"));
                }
                Ok(odd) => {
                    for what in odd {
                        self.report.warn(&place(), &format!("`{}`: {what}", shown(&record.handle)));
                    }
                    self.put(&place, record)?;
                }
            },
        }
        Ok(())
    }

    fn put(&mut self, place: &dyn Fn() -> String, record: Record<'_>) -> Result<(), Failure> {
        self.read += 1;
        let Some(importer) = &mut self.importer else { return Ok(()) };
        let handle = Handle::new(&record.handle);
        // It has been checked.
        let Ok(name) = handle.to_str() else { return Ok(()) };
        match importer.put(name.into(), &record.values) {
            Ok(()) => {}
            Err(error @ (ImportError::Name(_) | ImportError::TooLarge { .. })) => {
                self.report.refuse(&place(), &format!("`{}`: {error}", shown(&record.handle)));
                return Ok(());
            }
            Err(error) => return Err(failed(&error)),
        }
        let prefix = handle.prefix();
        if self.with_homes && self.home != prefix {
            importer.home(&String::from_utf8_lossy(prefix)).map_err(|error| failed(&error))?;
            self.home = prefix.to_vec();
        }
        Ok(())
    }

    fn finish(self, json: bool) -> Result<Answer, Failure> {
        let Self { importer, mut report, read, .. } = self;
        let imported = match importer {
            None => None,
            Some(importer) => {
                report.progress.finish_and_clear();
                report.progress = progress(read, RECORDS);
                let bar = report.progress.clone();
                let written = |imported: &Imported| {
                    let Imported { created, changed, unchanged, superseded, ended } = imported;
                    bar.set_position(created + changed + unchanged + superseded + ended.len() as u64);
                };
                Some(importer.finish(written).map_err(|error| failed(&error))?)
            }
        };
        for name in imported.iter().flat_map(|imported| &imported.ended) {
            report.refuse(
                &format!("`{}`", shown(name.as_bytes())),
                "the name was ended, and is not given again",
            );
        }
        report.finish(imported.as_ref(), read, json)?;
        Ok(if report.has_refused() { Answer::No } else { Answer::Yes })
    }
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::Store(error) => unread(error),
        error => Failure::new(error.to_string()),
    }
}
