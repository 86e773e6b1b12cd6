//! `tendot agency`

use serde_json::{Value as Json, json};

use crate::args::{AgencyArguments, AgencyCommand, AgencyFieldArguments};
use crate::failure::escape_control;
use crate::registry::{ApiSession, ResourceKind, flag_value, json_object};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &AgencyArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        AgencyCommand::Add { code, name, settings } => {
            let [metadata, range, locations] = members(settings)?;
            let members = [("code", Some(code.as_str().into())), ("name", Some(name.as_str().into()))];
            let body = json_object(members.into_iter().chain([metadata, range, locations]));
            session.create(&["agencies"], &[], &body, "code", |made| {
                format!("the agency {} is made", escape_control(made["code"].as_str().unwrap_or_default()))
            })
        }
        AgencyCommand::List(list) => session.list(ResourceKind::Agency, &["agencies"], &[], list.limit),
        AgencyCommand::Show { code } => session.show(ResourceKind::Agency, &["agencies", code]),
        AgencyCommand::Set { code, name, settings } => {
            let [metadata, range, locations] = members(settings)?;
            let name = ("name", name.as_deref().map(Into::into));
            let body = json_object([name, metadata, range, locations]);
            session.update(ResourceKind::Agency, &["agencies", code], &[], &body, None)
        }
        AgencyCommand::End { code, to } => {
            let body = json!({"agency": code, "to": to, "force": true});
            session.create(&["transfers"], &[], &body, "id", |made| {
                let to = escape_control(made["to"].as_str().unwrap_or_default());
                format!(
                    "the agency {} has ended; {to} has its registrants, prefixes and names",
                    escape_control(code)
                )
            })
        }
    }
}

fn members(settings: &AgencyFieldArguments) -> Result<[(&'static str, Option<Json>); 3], CliError> {
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
