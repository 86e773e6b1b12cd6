//! `tendot registrant`: create, list, show and update registrants.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, json_object};
use crate::terminal::escape_control;
use crate::{CliError, CommandStatus};

/// Registrants: those who have prefixes and register names
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PRESS=$(tendot registrant add --agency LIB 'Example Press' --contact doi@example.org)
  tendot registrant list --agency LIB
  tendot registrant set $PRESS --admin 300:10.70000/admin

Exit codes: 0 done, 1 there is no such registrant or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct RegistrantArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: RegistrantCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrantCommand {
    /// Make a registrant, and print its id
    Add {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// The code of its agency; not needed with an agency's token
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        /// How it is reached; only those concerned are told
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Who acts for it in the Handle System, such as 300:10.70000/admin; may be repeated
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
    },
    /// Print registrants
    List {
        /// Only those of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all about a registrant
    Show {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Change a registrant; what is not given stays
    Set {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Its name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How it is reached
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Who acts for it in the Handle System, instead of those before; may be repeated
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
        /// Nobody acts for it in the Handle System
        #[arg(long, conflicts_with = "admins")]
        no_admins: bool,
    },
}

pub(crate) fn run(arguments: &RegistrantArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        RegistrantCommand::Add { name, agency, contact, admins } => {
            let body = json_object([
                ("name", Some(name.as_str().into())),
                ("agency", agency.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", (!admins.is_empty()).then(|| json!(admins))),
            ]);
            session.create(&["registrants"], &[], &body, "id", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                format!("{} is a registrant of {}", text("name"), text("agency"))
            })
        }
        RegistrantCommand::List { agency, list } => session.list(
            ResourceKind::Registrant,
            &["registrants"],
            &[("agency", agency.as_deref())],
            list.limit,
        ),
        RegistrantCommand::Show { id } => session.show(ResourceKind::Registrant, &["registrants", id]),
        RegistrantCommand::Set { id, name, contact, admins, no_admins } => {
            let body = json_object([
                ("name", name.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", (*no_admins || !admins.is_empty()).then(|| json!(admins))),
            ]);
            session.update(ResourceKind::Registrant, &["registrants", id], &[], &body, None)
        }
    }
}
