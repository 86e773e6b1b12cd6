//! `tendot doi`: create, list, show, update and retire DOI names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tendot_registry::metadata::{BasicMetadata, KernelMetadata, MetadataFault};

use super::batch_import::{DoiImportArguments, import};
use super::{ApiConnectionArguments, ApiSession, DRY_RUN, ListArguments, ResourceKind, json_object};
use crate::resolve::handle_input::parse_handle_input;
use crate::terminal::{ConfirmationArguments, eprint_line, escape_control, is_stdio, quote_input};
use crate::{CliError, CommandStatus};

/// Register, update and retire DOI names
///
/// Uses the HTTP API of a running server; see Connection options. Accepts names in any written form.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi create 10.70000/abc --url https://example.org/abc --metadata abc.json
  tendot doi create 10.70000/abd --url https://example.org/abd --title Criticality --creator 'Bak, Per' --type Article
  NAME=$(tendot doi create --prefix 10.70000 --url https://example.org/new)
  tendot doi update 10.70000/abc --url https://example.org/moved
  tendot doi import names.csv --report report.csv
  tendot doi history 10.70000/abc
  tendot doi redact 10.70000/abc --reason 'request of a data subject'
  tendot doi retire 10.70000/abc --dry-run

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct DoiArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: DoiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoiCommand {
    /// Register a DOI name and print it
    Create {
        /// DOI name
        #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix",
              value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
        /// Mint a new name under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Reserve the name; it does not resolve yet
        #[arg(long)]
        reserve: bool,
        #[command(flatten)]
        registration: RegistrationArguments,
    },
    /// List DOI names
    List {
        /// Only names under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Only names of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show a DOI name
    Show {
        /// DOI name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Update a DOI name; omitted fields stay unchanged
    Update {
        /// DOI name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Register a reserved name
        #[arg(long)]
        register: bool,
        #[command(flatten)]
        registration: RegistrationArguments,
    },
    /// Retire a DOI name; it becomes a tombstone and is never reassigned
    ///
    /// A reserved name, and a name under a test prefix, is deleted instead and can be registered again. Shows the effect and asks
    /// for confirmation; without a terminal, `--yes` is required.
    Retire {
        /// DOI name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        confirmation: ConfirmationArguments,
    },
    /// Remove personal data from the history of a DOI name (agency or operator)
    ///
    /// Removes values and metadata from all earlier states. Time, author and kind of each change stay, and the audit chain is
    /// unbroken. The current state stays, too: update it first. A retired name cannot be updated; its last state is redacted.
    /// Backups, exports and logs of the database are not changed. Shows the effect and asks for confirmation; without a terminal,
    /// `--yes` is required.
    Redact {
        /// DOI name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Reason; it is public
        #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        reason: String,
        #[command(flatten)]
        confirmation: ConfirmationArguments,
    },
    /// List all changes of a DOI name, oldest first
    History {
        /// DOI name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        list: ListArguments,
    },
    Import(DoiImportArguments),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RegistrationArguments {
    /// Target URL
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Kernel metadata file, JSON or XML; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) basic: BasicMetadataArguments,
    /// Additional handle value, such as `3:EMAIL:doi@example.org`, or a JSON object; repeatable
    #[arg(long = "value", value_name = "INDEX:TYPE:DATA")]
    pub(crate) values: Vec<String>,
    /// Validate without writing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Fields that kernel metadata is made from, instead of a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct BasicMetadataArguments {
    /// Title; the metadata is made from `--title`, `--creator`, `--type` and `--date`
    #[arg(long, value_name = "TEXT", conflicts_with = "metadata")]
    pub(crate) title: Option<String>,
    /// Creator, such as `Bak, Per`; repeatable
    #[arg(long = "creator", value_name = "NAME", conflicts_with = "metadata")]
    pub(crate) creators: Vec<String>,
    /// Date of creation: YYYY, YYYY-MM or YYYY-MM-DD
    #[arg(long, value_name = "DATE", conflicts_with = "metadata")]
    pub(crate) date: Option<String>,
    /// Type, such as `Article`, `Book`, `Dataset`, `Film` or `Report`
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "metadata")]
    pub(crate) creation_type: Option<String>,
}

impl BasicMetadataArguments {
    /// Kernel metadata, if a field is given.
    fn to_json(&self) -> Result<Option<Json>, CliError> {
        let fields = BasicMetadata {
            title: self.title.as_deref(),
            creators: self.creators.iter().map(String::as_str).collect(),
            date: self.date.as_deref(),
            creation_type: self.creation_type.as_deref(),
        };
        if fields.is_empty() {
            return Ok(None);
        }
        let kernel = fields.to_kernel().map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(|fault| escape_control(&fault.message)).collect();
            CliError::new(format!("incomplete or invalid metadata: {}", faults.join("; "))).with_hint(
                "metadata needs `--title`, `--creator` and `--type`; `--metadata FILE` takes all elements",
            )
        })?;
        serde_json::from_str(&kernel.to_json())
            .map(Some)
            .map_err(|error| CliError::new(format!("invalid metadata: {error}")))
    }
}

/// Maximum size of a metadata file, the limit of the server.
const MAX_METADATA_BYTES: u64 = 2 << 20;

pub(crate) fn run(arguments: &DoiArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        DoiCommand::Create { name, prefix, reserve, registration } => {
            let name = name.as_deref().map(parse_handle_input).transpose()?.map(|name| Json::from(&*name));
            let state = reserve.then_some("reserved");
            let target = [
                ("name", name),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("state", state.map(Into::into)),
            ];
            let body = json_object(target.into_iter().chain(registration_fields(registration)?));
            session.create(&["dois"], dry_run_query(registration), &body, "name", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                if registration.dry_run {
                    return format!("{} would be {} (dry run)", text("name"), text("state"));
                }
                format!("{} {}", text("name"), text("state"))
            })
        }
        DoiCommand::Show { name } => session.show(ResourceKind::Doi, &["dois", &parse_handle_input(name)?]),
        DoiCommand::Update { name, register, registration } => {
            let state = ("state", register.then_some("registered".into()));
            let body = json_object(std::iter::once(state).chain(registration_fields(registration)?));
            session.update(
                ResourceKind::Doi,
                &["dois", &parse_handle_input(name)?],
                dry_run_query(registration),
                &body,
                None,
            )
        }
        DoiCommand::Retire { name, confirmation } => {
            let name = parse_handle_input(name)?;
            let path = ["dois", &*name];
            let planned = confirmation.confirm(|| Ok(retirement_effect(&session.plan_deletion(&path)?)))?;
            if let Some(status) = planned {
                return Ok(status);
            }
            let (status, retired) = session.delete_and_print(ResourceKind::Doi, &path)?;
            eprint_line(if retired["state"] == DELETED {
                "deleted; the name can be registered again"
            } else {
                "retired; the name will not be reassigned"
            });
            Ok(status)
        }
        DoiCommand::Redact { name, reason, confirmation } => {
            let body = json!({"name": parse_handle_input(name)?, "reason": reason});
            let planned = confirmation.confirm(|| {
                let planned = session.plan_creation(&["redactions"], &body)?;
                let name = escape_control(planned["name"].as_str().unwrap_or_default());
                let states = planned["states"].as_u64().unwrap_or_default();
                Ok(format!(
                    "values and metadata of {states} earlier states of `{name}` will be removed for good"
                ))
            })?;
            if let Some(status) = planned {
                return Ok(status);
            }
            session.create(&["redactions"], &[], &body, "name", |redaction| {
                match redaction["states"].as_u64().unwrap_or_default() {
                    0 => "nothing to redact; the history has no other states".into(),
                    1 => "1 state redacted; copies in backups remain".into(),
                    states => format!("{states} states redacted; copies in backups remain"),
                }
            })
        }
        DoiCommand::List { prefix, registrant, list } => {
            let query = [("prefix", prefix.as_deref()), ("registrant", registrant.as_deref())];
            session.list(ResourceKind::Doi, &["dois"], &query, list.limit)
        }
        DoiCommand::History { name, list } => session.list(
            ResourceKind::HistoryEntry,
            &["history", &parse_handle_input(name)?],
            &[],
            list.limit,
        ),
        DoiCommand::Import(arguments) => import(&session, arguments),
    }
}

/// State of a name that was deleted without a tombstone.
const DELETED: &str = "deleted";

/// Effect of retiring a name, from its planned state.
fn retirement_effect(planned: &Json) -> String {
    let name = escape_control(planned["name"].as_str().unwrap_or_default());
    if planned["state"] == DELETED {
        format!("`{name}` will be deleted; it can be registered again")
    } else {
        format!("`{name}` will become a tombstone: it returns 410 and can never be registered again")
    }
}

const fn dry_run_query(registration: &RegistrationArguments) -> &'static [(&'static str, &'static str)] {
    if registration.dry_run { DRY_RUN } else { &[] }
}

fn registration_fields(
    registration: &RegistrationArguments,
) -> Result<[(&'static str, Option<Json>); 3], CliError> {
    let values: Result<Vec<_>, _> =
        registration.values.iter().map(|value| parse_value_argument(value)).collect();
    let metadata = match &registration.metadata {
        Some(file) => Some(read_metadata_file(file)?),
        None => registration.basic.to_json()?,
    };
    Ok([
        ("url", registration.url.as_deref().map(Into::into)),
        ("values", Some(values?).filter(|values| !values.is_empty()).map(Json::Array)),
        ("metadata", metadata),
    ])
}

/// Parses `--value`: `INDEX:TYPE:DATA`, or a JSON object as in a record.
fn parse_value_argument(text: &str) -> Result<Json, CliError> {
    let invalid = |why: &str| {
        CliError::new(format!("invalid value `{}`: {why}", quote_input(text.as_bytes())))
            .with_hint("expected a value such as `3:EMAIL:doi@example.org` or `{\"index\":3,\"type\":\"EMAIL\",\"data\":\"doi@example.org\"}`")
    };
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| invalid(&error.to_string()));
    }
    let mut parts = text.splitn(3, ':');
    let (Some(index), Some(value_type), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(invalid("expected INDEX:TYPE:DATA"));
    };
    let index: u32 = index.trim().parse().map_err(|_| invalid("index is not a number"))?;
    Ok(json!({"index": index, "type": value_type, "data": data}))
}

/// Reads kernel metadata as JSON; XML is converted.
fn read_metadata_file(file: &Path) -> Result<Json, CliError> {
    let name = if is_stdio(file) { "standard input".into() } else { format!("`{}`", file.display()) };
    let failed = |error| CliError::io(format!("cannot read {name}"), &error);
    let source: Box<dyn Read> =
        if is_stdio(file) { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut text = String::new();
    source.take(MAX_METADATA_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_METADATA_BYTES {
        return Err(CliError::new(format!("{name} exceeds {MAX_METADATA_BYTES} bytes")));
    }
    let text = text.trim_start_matches('\u{feff}');
    let text = if text.trim_start().starts_with('<') {
        KernelMetadata::from_xml(text).map_err(|faults| metadata_error(&name, &faults))?.to_json()
    } else {
        text.to_owned()
    };
    serde_json::from_str(&text).map_err(|error| CliError::new(format!("invalid JSON in {name}: {error}")))
}

fn metadata_error(name: &str, faults: &[MetadataFault]) -> CliError {
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| format!("\n  {} at {}", escape_control(&fault.message), escape_control(&fault.pointer)))
        .collect();
    CliError::new(format!("invalid kernel metadata in {name}:{}", faults.concat())).negative()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_value_arguments() {
        let check = |text: &str, expected: Json| {
            assert_eq!(parse_value_argument(text).unwrap(), expected, "{text}");
        };
        check("3:EMAIL:a@b.org", json!({"index": 3, "type": "EMAIL", "data": "a@b.org"}));
        check("2:URL:https://a.org/", json!({"index": 2, "type": "URL", "data": "https://a.org/"}));
        check("{\"index\":3}", json!({"index": 3}));
        for invalid in ["", "3:EMAIL", "x:EMAIL:a", "{", "-1:EMAIL:a"] {
            assert!(parse_value_argument(invalid).is_err(), "{invalid}");
        }
    }
}
