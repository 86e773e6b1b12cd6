//! `tendot agency`: create, list, show, update and close agencies.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::{
    ApiConnectionArguments, ApiSession, ListArguments, MetadataPolicyArgument, ResourceKind, flag_value,
    json_object,
};
use crate::terminal::escape_control;
use crate::{CliError, CommandStatus};

/// Registration agencies: those who give prefixes to registrants
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  export TENDOT_TOKEN=$(cat tendot-data/operator.token)
  tendot agency add LIB 'The library' --metadata required
  tendot agency list
  tendot agency end LIB --to MUS

Exit codes: 0 done, 1 there is no such agency or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct AgencyArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: AgencyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgencyCommand {
    /// Make an agency, and print its code
    Add {
        /// By which it is known: ASCII letters, digits, `-` and `_`
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        settings: AgencyFieldArguments,
    },
    /// Print all agencies
    List(ListArguments),
    /// Print all about an agency
    Show {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
    },
    /// Change an agency; what is not given stays
    Set {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Its name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        settings: AgencyFieldArguments,
    },
    /// End an agency, and give all it has to another, at once; print the id of the transfer
    End {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// The agency that gets its registrants, with their prefixes and names
        #[arg(long, value_name = "CODE")]
        to: String,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AgencyFieldArguments {
    /// Whether its names have to come with metadata
    #[arg(long, value_name = "WHEN")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// The prefixes it gives away, such as 10.70000-10.79999
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) range: Option<String>,
    /// The record with the locations that all of its names have
    #[arg(long, value_name = "HANDLE")]
    pub(crate) locations: Option<String>,
}

pub(crate) fn run(arguments: &AgencyArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        AgencyCommand::Add { code, name, settings } => {
            let [metadata, range, locations] = agency_fields(settings)?;
            let members = [("code", Some(code.as_str().into())), ("name", Some(name.as_str().into()))];
            let body = json_object(members.into_iter().chain([metadata, range, locations]));
            session.create(&["agencies"], &[], &body, "code", |created| {
                format!("the agency {} is made", escape_control(created["code"].as_str().unwrap_or_default()))
            })
        }
        AgencyCommand::List(list) => session.list(ResourceKind::Agency, &["agencies"], &[], list.limit),
        AgencyCommand::Show { code } => session.show(ResourceKind::Agency, &["agencies", code]),
        AgencyCommand::Set { code, name, settings } => {
            let [metadata, range, locations] = agency_fields(settings)?;
            let name = ("name", name.as_deref().map(Into::into));
            let body = json_object([name, metadata, range, locations]);
            session.update(ResourceKind::Agency, &["agencies", code], &[], &body, None)
        }
        AgencyCommand::End { code, to } => {
            let body = json!({"agency": code, "to": to, "force": true});
            session.create(&["transfers"], &[], &body, "id", |created| {
                let to = escape_control(created["to"].as_str().unwrap_or_default());
                format!(
                    "the agency {} has ended; {to} has its registrants, prefixes and names",
                    escape_control(code)
                )
            })
        }
    }
}

fn agency_fields(settings: &AgencyFieldArguments) -> Result<[(&'static str, Option<Json>); 3], CliError> {
    let range = settings.range.as_deref().map(|range| match range.split_once('-') {
        Some((first, last)) => Ok(json!({"first": first.trim(), "last": last.trim()})),
        None => Err(CliError::new(format!("`{}` is no range", escape_control(range)))
            .with_hint("a range is written as 10.70000-10.79999")),
    });
    Ok([
        ("metadata", settings.metadata.as_ref().and_then(flag_value)),
        ("range", range.transpose()?),
        ("locations", settings.locations.as_deref().map(Into::into)),
    ])
}
