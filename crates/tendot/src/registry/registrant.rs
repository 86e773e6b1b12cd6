//! `tendot registrant`: create, list, show and update registrants.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, json_object};
use crate::terminal::escape_control;
use crate::{CliError, CommandStatus};

/// Manage registrants
///
/// Uses the HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PRESS=$(tendot registrant create --agency LIB 'Example Press' --contact doi@example.org)
  tendot registrant list --agency LIB
  tendot registrant update $PRESS --admin 300:10.70000/admin

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct RegistrantArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: RegistrantCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrantCommand {
    /// Create a registrant and print its id
    Create {
        /// Name
        #[arg(value_name = "NAME")]
        name: String,
        /// Agency code; not needed with an agency's token
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        /// Contact, visible to the registrant, its agency and the operator
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Handle identity that may act for the registrant, such as 300:10.70000/admin; repeatable
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
    },
    /// List registrants
    List {
        /// Only registrants of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show a registrant
    Show {
        /// Registrant id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Update a registrant; omitted fields stay unchanged
    Update {
        /// Registrant id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Contact
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Handle identity that may act for the registrant; repeatable, replaces all
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
        /// Remove a field
        #[arg(long, value_name = "FIELD", conflicts_with = "admins")]
        unset: Option<RegistrantField>,
    },
}

/// Field of a registrant that can be removed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RegistrantField {
    /// all handle identities
    Admins,
}

pub(crate) fn run(arguments: &RegistrantArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        RegistrantCommand::Create { name, agency, contact, admins } => {
            let body = json_object([
                ("name", Some(name.as_str().into())),
                ("agency", agency.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", (!admins.is_empty()).then(|| json!(admins))),
            ]);
            session.create(&["registrants"], &[], &body, "id", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                format!("registrant {} created in agency {}", text("name"), text("agency"))
            })
        }
        RegistrantCommand::List { agency, list } => session.list(
            ResourceKind::Registrant,
            &["registrants"],
            &[("agency", agency.as_deref())],
            list.limit,
        ),
        RegistrantCommand::Show { id } => session.show(ResourceKind::Registrant, &["registrants", id]),
        RegistrantCommand::Update { id, name, contact, admins, unset } => {
            let has_admins = unset.is_some() || !admins.is_empty();
            let body = json_object([
                ("name", name.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", has_admins.then(|| json!(admins))),
            ]);
            session.update(ResourceKind::Registrant, &["registrants", id], &[], &body, None)
        }
    }
}
