//! `tendot name`

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use tendot_names::{Error, OutputForm, Doi, Note, Parser, ParsedName, SyntaxRules, DoiOrShortDoi, repair};

use crate::args::NameArguments;
use crate::failure::{shown, tell_error, tell_that_input_is_awaited};
use crate::lines::Lines;
use crate::output::Output;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: NameArguments) -> Result<Answer, Failure> {
    let NameArguments { names, form, repair, reading, json } = arguments;
    let style = match form {
        Some(form) => Style::Form(form.0),
        None if json => Style::Json,
        None => Style::Text,
    };
    let mut printer = NamePrinter {
        reader: reading.reader(),
        repair,
        style,
        output: Output::new(),
        all_are_names: true,
        first: true,
    };
    if names.is_empty() {
        tell_that_input_is_awaited();
        let mut lines = Lines::new(io::stdin().lock());
        loop {
            if lines.is_buffer_empty() {
                printer.output.flush()?;
            }
            let Some(line) = lines.next()? else { break };
            printer.print(line)?;
        }
    } else {
        for name in &names {
            printer.print(name.as_encoded_bytes())?;
        }
    }
    printer.output.flush()?;
    Ok(if printer.all_are_names { Answer::Yes } else { Answer::No })
}

#[derive(Clone, Copy)]
enum Style {
    Text,
    Json,
    Form(OutputForm),
}

struct NamePrinter {
    reader: Parser,
    repair: bool,
    style: Style,
    output: Output,
    all_are_names: bool,
    first: bool,
}

impl NamePrinter {
    fn print(&mut self, input: &[u8]) -> Result<(), Failure> {
        let read = self.read(input);
        if let Err(error) = &read {
            self.refuse(input, &format!("no DOI name: {error}"));
        }
        match (self.style, &read) {
            (Style::Form(form), Ok(read)) => match read.target.written_as(form) {
                Some(written) => self.output.line(written),
                None => {
                    self.refuse(input, &format!("without a form `{}`", form.as_str()));
                    self.output.line("")
                }
            },
            (Style::Form(_), Err(_)) => self.output.line(""),
            (Style::Json, Ok(read)) => self.output.json(&Described::new(input, read)),
            (Style::Json, Err(error)) => self.output.json(&Refused::new(input, error)),
            (Style::Text, Ok(read)) => {
                let gap = if std::mem::take(&mut self.first) { "" } else { "\n" };
                self.output.write(gap.as_bytes())?;
                self.output.write(text(read).as_bytes())
            }
            (Style::Text, Err(_)) => Ok(()),
        }
    }

    fn refuse(&mut self, input: &[u8], why: &str) {
        self.all_are_names = false;
        tell_error(&format!("`{}` is {why}", shown(input)));
    }

    fn read<'a>(&self, input: &'a [u8]) -> Result<Read<'a>, Error> {
        if self.repair
            && input.len() <= crate::lines::LONGEST
            && let Ok(field) = str::from_utf8(input)
            && let Some(repaired) = repair(field)
            // A name that other rules forbid is left to the reader, which says why.
            && self.reader.parse(repaired.target.as_str()).is_ok()
        {
            // The form and the notes are those of the whole, where that can be read.
            let whole = self.reader.parse(field).ok();
            let form = whole.as_ref().map_or("name", |reading| reading.input_form().as_str());
            let mut notes: Vec<Note> = whole.iter().flat_map(|reading| reading.adjustments().iter()).collect();
            let untouched = whole.is_some_and(|reading| *reading.identifier() == repaired.target);
            let cut = (!untouched).then_some(Cut { before: repaired.before, after: repaired.after });
            if cut.is_some() {
                notes.push(Note::Repaired);
            }
            return Ok(Read { target: repaired.target, form, notes, cut });
        }
        let reading: ParsedName<'a> = self.reader.parse_bytes(input)?;
        let (form, notes) = (reading.input_form().as_str(), reading.adjustments().iter().collect());
        Ok(Read { target: reading.into_identifier(), form, notes, cut: None })
    }
}

/// An input that was understood.
struct Read<'a> {
    target: DoiOrShortDoi<'a>,
    form: &'static str,
    notes: Vec<Note>,
    cut: Option<Cut<'a>>,
}

/// What a repair cut off.
#[derive(Serialize)]
struct Cut<'a> {
    before: Cow<'a, str>,
    after: Cow<'a, str>,
}

fn obeys(target: &DoiOrShortDoi<'_>, rules: SyntaxRules) -> bool {
    Doi::with_rules(target.as_str(), rules).is_ok()
}

fn written(target: &DoiOrShortDoi<'_>, form: OutputForm) -> String {
    target.written_as(form).map(|written| written.to_string()).unwrap_or_default()
}

#[derive(Serialize)]
struct Described<'a> {
    input: Cow<'a, str>,
    ok: bool,
    kind: &'static str,
    form: &'static str,
    name: &'a str,
    prefix: &'a str,
    suffix: &'a str,
    canonical: String,
    uri: String,
    urn: String,
    url: String,
    uri_2003: String,
    url_minimal: String,
    url_full: String,
    rules: RuleConformance,
    notes: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<&'a Cut<'a>>,
}

#[derive(Serialize)]
struct RuleConformance {
    current: bool,
    z3984: bool,
    minimal2002: bool,
}

impl<'a> Described<'a> {
    fn new(input: &'a [u8], read: &'a Read<'_>) -> Self {
        let target = &read.target;
        Self {
            input: String::from_utf8_lossy(input),
            ok: true,
            kind: if matches!(target, DoiOrShortDoi::Doi(_)) { "doi" } else { "short" },
            form: read.form,
            name: target.as_str(),
            prefix: target.prefix(),
            suffix: target.suffix(),
            canonical: written(target, OutputForm::Canonical),
            uri: written(target, OutputForm::Uri),
            urn: written(target, OutputForm::Urn),
            url: written(target, OutputForm::Url),
            uri_2003: written(target, OutputForm::Uri2003),
            url_minimal: written(target, OutputForm::UrlMinimal),
            url_full: written(target, OutputForm::UrlFull),
            rules: RuleConformance {
                current: obeys(target, SyntaxRules::Current),
                z3984: obeys(target, SyntaxRules::Z3984),
                minimal2002: obeys(target, SyntaxRules::Minimal2002),
            },
            notes: read.notes.iter().map(|note| note.code()).collect(),
            cut: read.cut.as_ref(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Refused<'a> {
    input: Cow<'a, str>,
    ok: bool,
    error: Fault,
}

#[derive(Serialize)]
struct Fault {
    code: &'static str,
    message: &'static str,
    at: usize,
}

impl<'a> Refused<'a> {
    pub(super) fn new(input: &'a [u8], error: &Error) -> Self {
        let error = Fault { code: error.kind().code(), message: error.kind().message(), at: error.offset() };
        Self { input: String::from_utf8_lossy(input), ok: false, error }
    }
}

/// A table for people.
fn text(read: &Read<'_>) -> String {
    let target = &read.target;
    let obeyed: Vec<_> =
        SyntaxRules::ALL.into_iter().filter(|rules| obeys(target, *rules)).map(SyntaxRules::as_str).collect();
    let mut text = format!("{}\n", target.as_str());
    let mut row = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {key:<12}{value}");
        }
    };
    row("kind", if matches!(target, DoiOrShortDoi::Doi(_)) { "DOI name" } else { "shortDOI" });
    row("written as", read.form);
    row("prefix", target.prefix());
    row("suffix", target.suffix());
    for form in [
        OutputForm::Canonical,
        OutputForm::Url,
        OutputForm::Uri,
        OutputForm::Uri202411,
        OutputForm::Uri2003,
        OutputForm::Urn,
        OutputForm::Info,
        OutputForm::Eidr,
    ] {
        row(form.as_str(), &written(target, form));
    }
    row("obeys", &obeyed.join(", "));
    row("changed", &read.notes.iter().map(|note| note.code()).collect::<Vec<_>>().join(", "));
    if let Some(cut) = &read.cut {
        row("cut before", &shown(cut.before.as_bytes()));
        row("cut after", &shown(cut.after.as_bytes()));
    }
    text
}
