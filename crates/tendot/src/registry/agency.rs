//! `tendot agency`: create, list, show, update and close agencies.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::transfer::confirm_transfer;
use super::{
    ApiConnectionArguments, ApiSession, ListArguments, MetadataPolicyArgument, ResourceKind, flag_value,
    json_object,
};
use crate::terminal::{ConfirmationArguments, escape_control};
use crate::{CliError, CommandStatus};

/// Manage registration agencies
///
/// Uses the HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  export TENDOT_TOKEN=$(cat tendot-data/operator.token)
  tendot agency create LIB 'The library' --metadata required
  tendot agency list
  ID=$(tendot agency close LIB --successor MUS)
  tendot transfer accept $ID

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct AgencyArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: AgencyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgencyCommand {
    /// Create an agency and print its code
    Create {
        /// Agency code: ASCII letters, digits, `-` and `_`
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        fields: AgencyFieldArguments,
    },
    /// List agencies
    List(ListArguments),
    /// Show an agency
    Show {
        /// Agency code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
    },
    /// Update an agency; omitted fields stay unchanged
    Update {
        /// Agency code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        fields: AgencyFieldArguments,
    },
    /// Close an agency and move everything it has to its successor; print the id of the transfer
    ///
    /// The agency proposes its closure, and the successor accepts it with `tendot transfer accept ID`. Until then nothing changes;
    /// either side ends the proposal with `tendot transfer decline ID`. The operator can close an agency at once with `--force`, after
    /// confirmation; without a terminal, `--yes` is required.
    Close {
        /// Agency code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Agency that takes over its registrants, prefixes and DOI names
        #[arg(long, value_name = "CODE")]
        successor: String,
        /// Close the agency without acceptance by the successor (operator only)
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        confirmation: ConfirmationArguments,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AgencyFieldArguments {
    /// Metadata policy
    #[arg(long, value_name = "POLICY")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// Range of prefixes that the agency allocates, such as 10.70000-10.79999
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) range: Option<String>,
    /// Handle whose 10320/loc value applies to all DOI names of the agency
    #[arg(long, value_name = "HANDLE")]
    pub(crate) locations: Option<String>,
}

pub(crate) fn run(arguments: &AgencyArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        AgencyCommand::Create { code, name, fields } => {
            let [metadata, range, locations] = agency_fields(fields)?;
            let members = [("code", Some(code.as_str().into())), ("name", Some(name.as_str().into()))];
            let body = json_object(members.into_iter().chain([metadata, range, locations]));
            session.create(&["agencies"], &[], &body, "code", |created| {
                format!("agency {} created", escape_control(created["code"].as_str().unwrap_or_default()))
            })
        }
        AgencyCommand::List(list) => session.list(ResourceKind::Agency, &["agencies"], &[], list.limit),
        AgencyCommand::Show { code } => session.show(ResourceKind::Agency, &["agencies", code]),
        AgencyCommand::Update { code, name, fields } => {
            let [metadata, range, locations] = agency_fields(fields)?;
            let name = ("name", name.as_deref().map(Into::into));
            let body = json_object([name, metadata, range, locations]);
            session.update(ResourceKind::Agency, &["agencies", code], &[], &body, None)
        }
        AgencyCommand::Close { code, successor, force, confirmation } => {
            let body = json!({"agency": code, "to": successor, "force": force});
            if let Some(status) = confirm_transfer(&session, &body, *force, *confirmation)? {
                return Ok(status);
            }
            session.create(&["transfers"], &[], &body, "id", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                let (code, successor) = (escape_control(code), text("to"));
                match created["state"].as_str() {
                    Some("done") => format!(
                        "agency {code} closed; its registrants, prefixes and DOI names now belong to {successor}"
                    ),
                    _ => format!(
                        "closure of agency {code} proposed; {successor} accepts it with `tendot transfer accept {}`",
                        text("id")
                    ),
                }
            })
        }
    }
}

fn agency_fields(fields: &AgencyFieldArguments) -> Result<[(&'static str, Option<Json>); 3], CliError> {
    let range = fields.range.as_deref().map(|range| match range.split_once('-') {
        Some((first, last)) => Ok(json!({"first": first.trim(), "last": last.trim()})),
        None => Err(CliError::new(format!("invalid range `{}`", escape_control(range)))
            .with_hint("expected a range such as 10.70000-10.79999")),
    });
    Ok([
        ("metadata", fields.metadata.as_ref().and_then(flag_value)),
        ("range", range.transpose()?),
        ("locations", fields.locations.as_deref().map(Into::into)),
    ])
}
