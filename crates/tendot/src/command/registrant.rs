//! `tendot registrant`

use serde_json::json;

use crate::args::{RegistrantArguments, RegistrantCommand};
use crate::failure::escaped;
use crate::registry::{Noun, Session, form};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &RegistrantArguments) -> Result<Answer, Failure> {
    let session = Session::open(&arguments.registry)?;
    match &arguments.command {
        RegistrantCommand::Add { name, agency, contact, admins } => {
            let body = form([
                ("name", Some(name.as_str().into())),
                ("agency", agency.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", (!admins.is_empty()).then(|| json!(admins))),
            ]);
            session.add(&["registrants"], &[], &body, "id", |made| {
                let text = |name: &str| escaped(made[name].as_str().unwrap_or_default());
                format!("{} is a registrant of {}", text("name"), text("agency"))
            })
        }
        RegistrantCommand::List { agency, list } => {
            session.list(Noun::Registrant, &["registrants"], &[("agency", agency.as_deref())], list.limit)
        }
        RegistrantCommand::Show { id } => session.show(Noun::Registrant, &["registrants", id]),
        RegistrantCommand::Set { id, name, contact, admins, no_admins } => {
            let body = form([
                ("name", name.as_deref().map(Into::into)),
                ("contact", contact.as_deref().map(Into::into)),
                ("admins", (*no_admins || !admins.is_empty()).then(|| json!(admins))),
            ]);
            session.set(Noun::Registrant, &["registrants", id], &[], &body, None)
        }
    }
}
