//! `tendot doi`: register, list, show, update, retire and transfer DOI names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tendot_registry::metadata::{KernelMetadata, MetadataFault};

use super::batch_import::{DoiImportArguments, import};
use super::transfer::{TransferTargetArguments, transfer_message};
use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, json_object};
use crate::resolve::handle_input::parse_handle_input;
use crate::terminal::{eprint_line, escape_control, is_stdio, quote_input};
use crate::{CliError, CommandStatus};

/// DOI names: registering, changing, ending and transferring them
///
/// Asks a running service, see `--server` and `--token`. Names are taken in any written form.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi add 10.70000/abc --url https://example.org/abc --metadata abc.json
  NAME=$(tendot doi add --prefix 10.70000 --url https://example.org/new)
  tendot doi set 10.70000/abc --url https://example.org/moved
  tendot doi import names.csv --report report.csv
  tendot doi transfer 10.70000/abc 10.70000/def --to $OTHER
  tendot doi history 10.70000/abc

Exit codes: 0 done, 1 there is no such name or something was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct DoiArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: DoiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoiCommand {
    /// Register a name, and print it
    Add {
        /// The name
        #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix",
              value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
        /// Make a new name under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Reserve it only: it does not resolve yet
        #[arg(long)]
        reserve: bool,
        #[command(flatten)]
        deposit: RegistrationArguments,
    },
    /// Print all about a name
    Show {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Change a name; what is not given stays
    Set {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Register it, if it was reserved
        #[arg(long)]
        register: bool,
        #[command(flatten)]
        deposit: RegistrationArguments,
    },
    /// End a name: it leads nowhere any more, and is never given again
    End {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Print names
    List {
        /// Only those under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Only those of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all that ever changed under a name, the oldest first
    History {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Propose that another registrant gets names; print the id of the transfer
    Transfer {
        /// The names
        #[arg(value_name = "NAME", required = true, value_parser = NonEmptyStringValueParser::new())]
        names: Vec<String>,
        #[command(flatten)]
        receiver: TransferTargetArguments,
    },
    /// Accept a transfer: of names, a prefix or an agency
    Accept {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Decline a transfer, or take it back
    Decline {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Print the transfers in which who asks gives or receives
    Transfers(ListArguments),
    Import(DoiImportArguments),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RegistrationArguments {
    /// Where it leads
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with kernel metadata, JSON or XML; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,
    /// A further value, such as `3:EMAIL:doi@example.org`, or a JSON object as in a record; may be repeated
    #[arg(long = "value", value_name = "INDEX:TYPE:DATA")]
    pub(crate) values: Vec<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Maximum size of a metadata file, the limit of the server.
const MAX_METADATA_BYTES: u64 = 2 << 20;

pub(crate) fn run(arguments: &DoiArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        DoiCommand::Add { name, prefix, reserve, deposit } => {
            let name = name.as_deref().map(|name| Json::from(&*parse_handle_input(name)));
            let state = reserve.then_some("reserved");
            let target = [
                ("name", name),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("state", state.map(Into::into)),
            ];
            let body = json_object(target.into_iter().chain(registration_fields(deposit)?));
            session.create(&["dois"], dry_run_query(deposit), &body, "name", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                let would = if deposit.dry_run { "would be" } else { "is" };
                format!("{} {would} {}", text("name"), text("state"))
            })
        }
        DoiCommand::Show { name } => session.show(ResourceKind::Doi, &["dois", &parse_handle_input(name)]),
        DoiCommand::Set { name, register, deposit } => {
            let state = ("state", register.then_some("registered".into()));
            let body = json_object(std::iter::once(state).chain(registration_fields(deposit)?));
            session.update(
                ResourceKind::Doi,
                &["dois", &parse_handle_input(name)],
                dry_run_query(deposit),
                &body,
                None,
            )
        }
        DoiCommand::End { name } => {
            let reply = session.delete(&["dois", &parse_handle_input(name)])?;
            session.print(ResourceKind::Doi, &reply)?;
            eprint_line("it has ended, and is never given again");
            Ok(CommandStatus::Success)
        }
        DoiCommand::List { prefix, registrant, list } => {
            let query = [("prefix", prefix.as_deref()), ("registrant", registrant.as_deref())];
            session.list(ResourceKind::Doi, &["dois"], &query, list.limit)
        }
        DoiCommand::History { name, list } => {
            session.list(ResourceKind::HistoryEntry, &["history", &parse_handle_input(name)], &[], list.limit)
        }
        DoiCommand::Transfer { names, receiver } => {
            let names: Vec<_> = names.iter().map(|name| parse_handle_input(name)).collect();
            let body = json!({"names": names, "to": receiver.to, "force": receiver.force});
            session.create(&["transfers"], &[], &body, "id", transfer_message)
        }
        DoiCommand::Accept { id } => {
            session.post_action(ResourceKind::Transfer, &["transfers", id, "accept"])
        }
        DoiCommand::Decline { id } => {
            session.post_action(ResourceKind::Transfer, &["transfers", id, "decline"])
        }
        DoiCommand::Transfers(list) => session.list(ResourceKind::Transfer, &["transfers"], &[], list.limit),
        DoiCommand::Import(arguments) => import(&session, arguments),
    }
}

const fn dry_run_query(deposit: &RegistrationArguments) -> &'static [(&'static str, &'static str)] {
    if deposit.dry_run { &[("dry-run", "true")] } else { &[] }
}

fn registration_fields(
    deposit: &RegistrationArguments,
) -> Result<[(&'static str, Option<Json>); 3], CliError> {
    let values: Result<Vec<_>, _> =
        deposit.values.iter().map(|written| parse_value_argument(written)).collect();
    let metadata = deposit.metadata.as_deref().map(read_metadata_file).transpose()?;
    Ok([
        ("url", deposit.url.as_deref().map(Into::into)),
        ("values", Some(values?).filter(|values| !values.is_empty()).map(Json::Array)),
        ("metadata", metadata),
    ])
}

/// Parses `--value`: `INDEX:TYPE:DATA`, or a JSON object as in a record.
fn parse_value_argument(written: &str) -> Result<Json, CliError> {
    let wrong = |why: &str| {
        CliError::new(format!("`{}` is no value: {why}", quote_input(written.as_bytes())))
            .with_hint("such as `3:EMAIL:doi@example.org` or `{\"index\":3,\"type\":\"EMAIL\",\"data\":\"doi@example.org\"}`")
    };
    if written.trim_start().starts_with('{') {
        return serde_json::from_str(written).map_err(|error| wrong(&error.to_string()));
    }
    let mut parts = written.splitn(3, ':');
    let (Some(index), Some(value_type), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong("it has an index, a type and data, with colons between them"));
    };
    let index: u32 = index.trim().parse().map_err(|_| wrong("its index is no number"))?;
    Ok(json!({"index": index, "type": value_type, "data": data}))
}

/// Reads kernel metadata as JSON; XML is converted.
fn read_metadata_file(file: &Path) -> Result<Json, CliError> {
    let name = if is_stdio(file) { "standard input".into() } else { format!("`{}`", file.display()) };
    let failed = |error| CliError::io(format!("{name} can't be read"), &error);
    let source: Box<dyn Read> =
        if is_stdio(file) { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut text = String::new();
    source.take(MAX_METADATA_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_METADATA_BYTES {
        return Err(CliError::new(format!("{name} has more than {MAX_METADATA_BYTES} bytes")));
    }
    let text = text.trim_start_matches('\u{feff}');
    let text = if text.trim_start().starts_with('<') {
        KernelMetadata::from_xml(text).map_err(|faults| metadata_error(&name, &faults))?.to_json()
    } else {
        text.to_owned()
    };
    serde_json::from_str(&text).map_err(|error| CliError::new(format!("{name} is no JSON: {error}")))
}

fn metadata_error(name: &str, faults: &[MetadataFault]) -> CliError {
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| format!("\n  {} at {}", escape_control(&fault.message), escape_control(&fault.pointer)))
        .collect();
    CliError::new(format!("{name} is no kernel metadata:{}", faults.concat())).negative()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |written: &str, expected: Json| {
            assert_eq!(parse_value_argument(written).unwrap(), expected, "{written}");
        };
        check("3:EMAIL:a@b.org", json!({"index": 3, "type": "EMAIL", "data": "a@b.org"}));
        check("2:URL:https://a.org/", json!({"index": 2, "type": "URL", "data": "https://a.org/"}));
        check("{\"index\":3}", json!({"index": 3}));
        for wrong in ["", "3:EMAIL", "x:EMAIL:a", "{", "-1:EMAIL:a"] {
            assert!(parse_value_argument(wrong).is_err(), "{wrong}");
        }
    }
}
