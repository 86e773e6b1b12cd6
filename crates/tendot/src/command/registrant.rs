//! `tendot registrant`

use serde_json::json;

use crate::args::{RegistrantArguments, RegistrantCommand};
use crate::failure::escape_control;
use crate::registry::{ApiSession, ResourceKind, json_object};
use crate::{CliError, CommandStatus};

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
            session.create(&["registrants"], &[], &body, "id", |made| {
                let text = |name: &str| escape_control(made[name].as_str().unwrap_or_default());
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
