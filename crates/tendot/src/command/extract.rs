//! `tendot extract`

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal as _, Read as _};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tendot_names::{Extractor, Found};

use crate::args::ExtractArguments;
use crate::extract::{Hit, Part, Paths, SearchError, Sink, in_order, search};
use crate::failure::{shown, tell_error, tell_that_input_is_awaited};
use crate::output::Output;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ExtractArguments) -> Result<Answer, Failure> {
    let mut report = Report::new(arguments);
    let extractor = Extractor::new().join_lines(arguments.join_lines).keep_tails(arguments.keep_tails);
    if arguments.paths.is_empty() {
        report.standard_input(extractor)?;
    } else {
        search_paths(arguments, extractor, &mut report)?;
    }
    report.finish()
}

/// Searches files in parallel. Standard input among them is searched by the thread that writes, in its turn.
fn search_paths(
    arguments: &ExtractArguments,
    extractor: Extractor,
    report: &mut Report,
) -> Result<(), Failure> {
    let threads = arguments
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZero::<usize>::MIN);
    let in_parts = !arguments.join_lines;
    let json = arguments.json;
    let jobs = Paths::new(&arguments.paths).flat_map(move |path| Job::all_of(path, in_parts));
    let work = |job: Job| job.search(extractor, json);
    in_order(threads, jobs, work, |result| match result {
        Done::Searched(searched) => report.searched(searched),
        Done::StandardInput => report.standard_input(extractor),
        Done::Failed(path, error) => {
            report.failed(&path, &error);
            Ok(())
        }
    })
}

/// Something to search.
enum Job {
    StandardInput,
    Whole(PathBuf),
    Part { path: PathBuf, range: Range<u64> },
    Unreadable(PathBuf, io::Error),
}

/// What became of it.
enum Done {
    StandardInput,
    Searched(Searched),
    Failed(PathBuf, io::Error),
}

/// What was found in a part of a file.
struct Searched {
    path: PathBuf,
    names: Names,
    count: u64,
    /// How many lines the part has.
    lines: u64,
    bytes: u64,
    is_first: bool,
}

enum Names {
    /// One a line.
    Plain(Vec<u8>),
    Hits(Vec<Hit>),
}

impl Job {
    fn all_of(
        path: Result<(PathBuf, Option<Metadata>), (PathBuf, io::Error)>,
        in_parts: bool,
    ) -> Box<dyn Iterator<Item = Self> + Send> {
        let (path, metadata) = match path {
            Ok((path, Some(metadata))) => (path, metadata),
            Ok((_, None)) => return Box::new(std::iter::once(Self::StandardInput)),
            Err((path, error)) => return Box::new(std::iter::once(Self::Unreadable(path, error))),
        };
        if !in_parts || !metadata.is_file() || metadata.len() < 2 * Part::SIZE {
            return Box::new(std::iter::once(Self::Whole(path)));
        }
        let parts = metadata.len().div_ceil(Part::SIZE);
        Box::new((0..parts).map(move |part| {
            let start = part * Part::SIZE;
            // The last part goes to the end, wherever that is by then.
            let end = if part + 1 == parts { u64::MAX } else { start + Part::SIZE };
            Self::Part { path: path.clone(), range: start..end }
        }))
    }

    fn search(self, extractor: Extractor, json: bool) -> Done {
        let (path, range) = match self {
            Self::StandardInput => return Done::StandardInput,
            Self::Unreadable(path, error) => return Done::Failed(path, error),
            Self::Whole(path) => (path, 0..u64::MAX),
            Self::Part { path, range } => (path, range),
        };
        match search_part(&path, range, extractor, json) {
            Ok(searched) => Done::Searched(Searched { path, ..searched }),
            Err(error) => Done::Failed(path, error),
        }
    }
}

fn search_part(path: &Path, range: Range<u64>, extractor: Extractor, json: bool) -> io::Result<Searched> {
    let extractor = extractor.field_separator(field_separator(path)?);
    let is_first = range.start == 0;
    let mut part = Part::open(path, range)?;
    let start = part.start();
    let mut searched = Searched {
        path: PathBuf::new(),
        names: Names::Plain(Vec::new()),
        count: 0,
        lines: 0,
        bytes: 0,
        is_first,
    };
    if json {
        let mut sink = Collect::<true>::default();
        searched.lines = found(search(&mut part, extractor, start, &mut sink))?;
        searched.count = sink.count;
        searched.names = Names::Hits(sink.hits);
    } else {
        let mut sink = Collect::<false>::default();
        found(search(&mut part, extractor, start, &mut sink))?;
        searched.count = sink.count;
        searched.names = Names::Plain(sink.plain);
    }
    searched.bytes = part.start() - start;
    Ok(searched)
}

fn found(result: Result<u64, SearchError<std::convert::Infallible>>) -> io::Result<u64> {
    result.map_err(|error| match error {
        SearchError::Read(error) => error,
        SearchError::Take(never) => match never {},
    })
}

/// The byte between the fields of a table, by the file's name; for `.csv` the first line tells which it is.
fn field_separator(path: &Path) -> io::Result<Option<u8>> {
    let extension = path.extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("tsv") {
        return Ok(Some(b'\t'));
    }
    if !extension.eq_ignore_ascii_case("csv") {
        return Ok(None);
    }
    let mut beginning = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut beginning)?;
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for byte in beginning {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => break,
            _ if quoted => {}
            _ => {
                for (separator, count) in &mut counts {
                    *count += usize::from(byte == *separator);
                }
            }
        }
    }
    // The first of those that occur most, so a table of one column has commas.
    let most = counts.iter().rev().max_by_key(|(_, count)| *count);
    Ok(most.map(|(separator, _)| *separator))
}

/// Keeps names for later.
#[derive(Default)]
struct Collect<const HITS: bool> {
    plain: Vec<u8>,
    hits: Vec<Hit>,
    count: u64,
}

impl<const HITS: bool> Sink for Collect<HITS> {
    type Error = std::convert::Infallible;
    const LINES: bool = HITS;

    fn take(&mut self, found: &Found<'_>, text: &[u8], base: u64, line: u64) -> Result<(), Self::Error> {
        self.count += 1;
        if HITS {
            self.hits.push(Hit::new(found, text, base, line));
        } else {
            self.plain.extend_from_slice(found.name.as_str().as_bytes());
            self.plain.push(b'\n');
        }
        Ok(())
    }
}

/// What is printed.
struct Report {
    output: Output,
    json: bool,
    count_only: bool,
    /// Comparison keys of the names seen, when each is wanted only once.
    seen: Option<HashSet<Vec<u8>>>,
    count: u64,
    /// Lines of the current file before the current part.
    lines: u64,
    incomplete: bool,
    progress: ProgressBar,
}

#[derive(Serialize)]
struct HitObject<'a> {
    name: &'a str,
    path: std::borrow::Cow<'a, str>,
    line: u64,
    start: u64,
    end: u64,
    text: &'a str,
    flags: Vec<&'static str>,
}

#[derive(Serialize)]
struct CountObject {
    count: u64,
}

impl Report {
    fn new(arguments: &ExtractArguments) -> Self {
        Self {
            output: Output::new(),
            json: arguments.json,
            count_only: arguments.count,
            seen: arguments.unique.then(HashSet::new),
            count: 0,
            lines: 0,
            incomplete: false,
            progress: progress(&arguments.paths),
        }
    }

    fn standard_input(&mut self, extractor: Extractor) -> Result<(), Failure> {
        self.lines = 0;
        tell_that_input_is_awaited();
        let result = if self.json {
            search(io::stdin().lock(), extractor, 0, &mut Live::<true>(self))
        } else {
            search(io::stdin().lock(), extractor, 0, &mut Live::<false>(self))
        };
        match result {
            Ok(_) => Ok(()),
            Err(SearchError::Read(error)) => {
                self.failed(Path::new("-"), &error);
                Ok(())
            }
            Err(SearchError::Take(failure)) => Err(failure),
        }
    }

    fn searched(&mut self, searched: Searched) -> Result<(), Failure> {
        if searched.is_first {
            self.lines = 0;
        }
        match searched.names {
            Names::Plain(_) if self.count_only && self.seen.is_none() => self.count += searched.count,
            Names::Plain(names) if self.seen.is_none() => {
                self.count += searched.count;
                self.output.write(&names)?;
            }
            Names::Plain(names) => {
                for name in names.split(|byte| *byte == b'\n').filter(|name| !name.is_empty()) {
                    self.name(name)?;
                }
            }
            Names::Hits(hits) => {
                for hit in &hits {
                    self.hit(&searched.path, hit)?;
                }
            }
        }
        self.lines += searched.lines;
        self.progress.inc(searched.bytes);
        Ok(())
    }

    fn name(&mut self, name: &[u8]) -> Result<(), Failure> {
        if self.is_new(name) && !self.count_only {
            self.output.write(name)?;
            self.output.write(b"\n")?;
        }
        Ok(())
    }

    fn hit(&mut self, path: &Path, hit: &Hit) -> Result<(), Failure> {
        if !self.is_new(hit.name.as_bytes()) || self.count_only {
            return Ok(());
        }
        let object = HitObject {
            name: &hit.name,
            path: path.to_string_lossy(),
            line: self.lines + hit.line + 1,
            start: hit.start,
            end: hit.end,
            text: &hit.text,
            flags: hit.flags.iter().map(|flag| flag.code()).collect(),
        };
        self.output.json(&object)
    }

    /// Counts a name, unless it was seen and only new ones are wanted.
    fn is_new(&mut self, name: &[u8]) -> bool {
        let is_new = self.seen.as_mut().is_none_or(|seen| seen.insert(name.to_ascii_uppercase()));
        self.count += u64::from(is_new);
        is_new
    }

    /// A file that can't be read is told; the rest goes on.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.incomplete = true;
        let path = shown(path.as_os_str().as_encoded_bytes());
        self.progress.suspend(|| tell_error(&format!("`{path}` can't be read: {error}")));
    }

    fn finish(mut self) -> Result<Answer, Failure> {
        self.progress.finish_and_clear();
        if self.count_only && self.json {
            self.output.json(&CountObject { count: self.count })?;
        } else if self.count_only {
            self.output.line(self.count)?;
        }
        self.output.flush()?;
        if self.incomplete {
            return Ok(Answer::Incomplete);
        }
        if self.count == 0 {
            anstream::eprintln!("no DOI name found");
            return Ok(Answer::No);
        }
        Ok(Answer::Yes)
    }
}

/// Prints names as they are found.
struct Live<'a, const HITS: bool>(&'a mut Report);

impl<const HITS: bool> Sink for Live<'_, HITS> {
    type Error = Failure;
    const LINES: bool = HITS;

    fn take(&mut self, found: &Found<'_>, text: &[u8], base: u64, line: u64) -> Result<(), Failure> {
        if HITS {
            return self.0.hit(Path::new("-"), &Hit::new(found, text, base, line));
        }
        self.0.name(found.name.as_str().as_bytes())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.0.output.flush()
    }
}

/// A bar on stderr when somebody watches it and the names go elsewhere.
fn progress(paths: &[PathBuf]) -> ProgressBar {
    if paths.is_empty() || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let bytes =
        Paths::new(paths).flatten().filter_map(|(_, metadata)| metadata).map(|metadata| metadata.len()).sum();
    let template = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
