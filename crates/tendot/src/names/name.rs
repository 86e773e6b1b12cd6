//! `tendot name`: parses names and prints their forms.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tendot_names::{
    Adjustment, Adjustments, Doi, DoiOrShortDoi, Error, InputForm, OutputForm, ParsedName, Parser,
    RepairedDoi, SyntaxRules,
};

use super::ParseArguments;
use crate::line_reader::LineReader;
use crate::terminal::{StdoutWriter, eprint_error, eprint_stdin_notice, quote_input};
use crate::{CliError, CommandStatus};

/// Parse DOI names in any written form and print their details
///
/// Accepts bare names, `doi:`, `urn:doi:`, `https://doi.org/…` and its older spellings, `info:doi/`, `hdl:`, `urn:eidr:` and
/// shortDOIs.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot name https://dx.doi.org/10.1000%2F182
  tendot name --as url '10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-0'
  tendot name --as canonical < list.txt > clean.txt
  tendot name --repair --json '10.1126/science.1255642.pmid:26068859'

Exit codes: 0 success, 1 some names are invalid, 2 error")]
pub(crate) struct NameArguments {
    /// Names to parse [default: lines of standard input]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,

    /// Print only this form, one line per input; an empty line for an invalid name
    #[arg(long = "as", value_name = "FORM", conflicts_with = "json", help_heading = "Output")]
    pub(crate) form: Option<OutputFormArgument>,

    /// Also remove damage such as punctuation, URL tails and appended notes, and report what was removed
    #[arg(long, conflicts_with = "strict")]
    pub(crate) repair: bool,

    #[command(flatten)]
    pub(crate) syntax: ParseArguments,

    /// Print JSON, one object per input
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Value of `--as`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputFormArgument(pub(crate) OutputForm);

impl ValueEnum for OutputFormArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [OutputFormArgument; OutputForm::ALL.len()] = {
            let mut all = [OutputFormArgument(OutputForm::Bare); OutputForm::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = OutputFormArgument(OutputForm::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            OutputForm::Bare => "as written, decoded",
            OutputForm::Canonical => "ASCII letters in upper case, the comparison key",
            OutputForm::Uri => "`doi:` URI, June 2024 draft",
            OutputForm::Uri202411 => "`doi:` URI as published in November 2024",
            OutputForm::Uri2003 => "canonical `doi:` URI, 2003 draft",
            OutputForm::Urn => "`urn:doi:`",
            OutputForm::Url => "https://doi.org/…, readable",
            OutputForm::UrlMinimal => "https://doi.org/…, minimal encoding",
            OutputForm::UrlFull => "https://doi.org/…, encoded as in `uri`",
            OutputForm::Info => "`info:doi/`",
            OutputForm::Display => "`doi:` and the bare name",
            OutputForm::Eidr => "`urn:eidr:`, EIDR prefixes only",
            OutputForm::Html => "HTML link",
            _ => "",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

pub(crate) fn run(arguments: NameArguments) -> Result<CommandStatus, CliError> {
    let NameArguments { names, form, repair, syntax, json } = arguments;
    let style = match form {
        Some(form) => NameOutput::Form(form.0),
        None if json => NameOutput::Json,
        None => NameOutput::Text,
    };
    let mut printer = NamePrinter {
        parser: syntax.parser(),
        repair,
        style,
        output: StdoutWriter::new(),
        all_valid: true,
        is_first: true,
    };
    if names.is_empty() {
        eprint_stdin_notice();
        let mut lines = LineReader::stdin_like(io::stdin().lock());
        loop {
            if lines.is_buffer_empty() {
                printer.output.flush()?;
            }
            let Some(line) = lines.next_line()? else { break };
            printer.print_input(line)?;
        }
    } else {
        for name in &names {
            printer.print_input(name.as_encoded_bytes())?;
        }
    }
    printer.output.flush()?;
    Ok(if printer.all_valid { CommandStatus::Success } else { CommandStatus::Negative })
}

/// Output selected by `--as` and `--json`.
#[derive(Clone, Copy)]
enum NameOutput {
    Text,
    Json,
    Form(OutputForm),
}

/// Parses inputs and prints the results.
struct NamePrinter {
    parser: Parser,
    repair: bool,
    style: NameOutput,
    output: StdoutWriter,
    all_valid: bool,
    is_first: bool,
}

impl NamePrinter {
    fn print_input(&mut self, input: &[u8]) -> Result<(), CliError> {
        let parsed = self.parse_input(input);
        if let Err(error) = &parsed {
            self.report_invalid(&format!("invalid DOI name `{}`: {error}", quote_input(input)));
        }
        match (self.style, &parsed) {
            (NameOutput::Form(form), Ok(parsed)) => match parsed.target.format(form) {
                Some(written) => self.output.write_line(written),
                None => {
                    self.report_invalid(&format!("`{}` has no `{}` form", quote_input(input), form.as_str()));
                    self.output.write_line("")
                }
            },
            (NameOutput::Form(_), Err(_)) => self.output.write_line(""),
            (NameOutput::Json, Ok(parsed)) => self.output.write_json(&ParsedNameJson::new(input, parsed)),
            (NameOutput::Json, Err(error)) => self.output.write_json(&InvalidNameJson::new(input, error)),
            (NameOutput::Text, Ok(parsed)) => {
                let gap = if std::mem::take(&mut self.is_first) { "" } else { "\n" };
                self.output.write_bytes(gap.as_bytes())?;
                self.output.write_bytes(format_details(parsed).as_bytes())
            }
            (NameOutput::Text, Err(_)) => Ok(()),
        }
    }

    fn report_invalid(&mut self, message: &str) {
        self.all_valid = false;
        eprint_error(message);
    }

    fn parse_input<'a>(&self, input: &'a [u8]) -> Result<ParsedInput<'a>, Error> {
        if self.repair
            && let Ok(field) = str::from_utf8(input)
            // A name that violates `--rules` goes to the parser below, whose error says why.
            && let Some(repaired) = self.parser.repair(field)
        {
            let RepairedDoi { identifier, input_form, adjustments, text_before, text_after, .. } = repaired;
            let removed = adjustments
                .contains(Adjustment::Repaired)
                .then_some(RemovedText { before: text_before, after: text_after });
            return Ok(ParsedInput { target: identifier, input_form, adjustments, removed });
        }
        let parsed: ParsedName<'a> = self.parser.parse_bytes(input)?;
        let (input_form, adjustments) = (parsed.input_form(), parsed.adjustments());
        Ok(ParsedInput { target: parsed.into_identifier(), input_form, adjustments, removed: None })
    }
}

/// Successfully parsed input.
struct ParsedInput<'a> {
    target: DoiOrShortDoi<'a>,
    input_form: InputForm,
    adjustments: Adjustments,
    removed: Option<RemovedText<'a>>,
}

/// Text removed by `--repair`.
#[derive(Serialize)]
struct RemovedText<'a> {
    before: Cow<'a, str>,
    after: Cow<'a, str>,
}

fn conforms_to(target: &DoiOrShortDoi<'_>, rules: SyntaxRules) -> bool {
    Doi::with_rules(target.as_str(), rules).is_ok()
}

fn format_as(target: &DoiOrShortDoi<'_>, form: OutputForm) -> String {
    target.format(form).map(|written| written.to_string()).unwrap_or_default()
}

#[derive(Serialize)]
struct ParsedNameJson<'a> {
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
    removed: Option<&'a RemovedText<'a>>,
}

/// Rule sets that the name satisfies.
#[derive(Serialize)]
struct RuleConformance {
    current: bool,
    z3984: bool,
    minimal2002: bool,
}

impl<'a> ParsedNameJson<'a> {
    fn new(input: &'a [u8], parsed: &'a ParsedInput<'_>) -> Self {
        let target = &parsed.target;
        Self {
            input: String::from_utf8_lossy(input),
            ok: true,
            kind: if matches!(target, DoiOrShortDoi::Doi(_)) { "doi" } else { "short" },
            form: parsed.input_form.as_str(),
            name: target.as_str(),
            prefix: target.prefix(),
            suffix: target.suffix(),
            canonical: format_as(target, OutputForm::Canonical),
            uri: format_as(target, OutputForm::Uri),
            urn: format_as(target, OutputForm::Urn),
            url: format_as(target, OutputForm::Url),
            uri_2003: format_as(target, OutputForm::Uri2003),
            url_minimal: format_as(target, OutputForm::UrlMinimal),
            url_full: format_as(target, OutputForm::UrlFull),
            rules: RuleConformance {
                current: conforms_to(target, SyntaxRules::Current),
                z3984: conforms_to(target, SyntaxRules::Z3984),
                minimal2002: conforms_to(target, SyntaxRules::Minimal2002),
            },
            notes: parsed.adjustments.iter().map(Adjustment::code).collect(),
            removed: parsed.removed.as_ref(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct InvalidNameJson<'a> {
    input: Cow<'a, str>,
    ok: bool,
    error: ParseErrorJson,
}

#[derive(Serialize)]
struct ParseErrorJson {
    code: &'static str,
    message: &'static str,
    at: usize,
}

impl<'a> InvalidNameJson<'a> {
    pub(super) fn new(input: &'a [u8], error: &Error) -> Self {
        let error =
            ParseErrorJson { code: error.kind().code(), message: error.kind().message(), at: error.offset() };
        Self { input: String::from_utf8_lossy(input), ok: false, error }
    }
}

/// Text output: name and a table of its forms and properties.
fn format_details(parsed: &ParsedInput<'_>) -> String {
    let target = &parsed.target;
    let satisfied: Vec<_> = SyntaxRules::ALL
        .into_iter()
        .filter(|rules| conforms_to(target, *rules))
        .map(SyntaxRules::as_str)
        .collect();
    let mut text = format!("{}\n", target.as_str());
    let mut row = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {key:<16}{value}");
        }
    };
    row("type", if matches!(target, DoiOrShortDoi::Doi(_)) { "DOI name" } else { "shortDOI" });
    row("input form", parsed.input_form.as_str());
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
        row(form.as_str(), &format_as(target, form));
    }
    row("valid under", &satisfied.join(", "));
    let adjustments: Vec<_> = parsed.adjustments.iter().map(Adjustment::code).collect();
    row("adjusted", &adjustments.join(", "));
    if let Some(removed) = &parsed.removed {
        row("removed before", &quote_input(removed.before.as_bytes()));
        row("removed after", &quote_input(removed.after.as_bytes()));
    }
    text
}
