//! `tendot agency`

use serde_json::{Value as Json, json};

use crate::args::{AgencyArguments, AgencyCommand, AgencyFieldArguments};
use crate::failure::escaped;
use crate::registry::{Noun, Session, form, word};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &AgencyArguments) -> Result<Answer, Failure> {
    let session = Session::open(&arguments.registry)?;
    match &arguments.command {
        AgencyCommand::Add { code, name, settings } => {
            let [metadata, range, locations] = members(settings)?;
            let members = [("code", Some(code.as_str().into())), ("name", Some(name.as_str().into()))];
            let body = form(members.into_iter().chain([metadata, range, locations]));
            session.add(&["agencies"], &[], &body, "code", |made| {
                format!("the agency {} is made", escaped(made["code"].as_str().unwrap_or_default()))
            })
        }
        AgencyCommand::List(list) => session.list(Noun::Agency, &["agencies"], &[], list.limit),
        AgencyCommand::Show { code } => session.show(Noun::Agency, &["agencies", code]),
        AgencyCommand::Set { code, name, settings } => {
            let [metadata, range, locations] = members(settings)?;
            let name = ("name", name.as_deref().map(Into::into));
            let body = form([name, metadata, range, locations]);
            session.set(Noun::Agency, &["agencies", code], &[], &body, None)
        }
        AgencyCommand::End { code, to } => {
            let body = json!({"agency": code, "to": to, "force": true});
            session.add(&["transfers"], &[], &body, "id", |made| {
                let to = escaped(made["to"].as_str().unwrap_or_default());
                format!(
                    "the agency {} has ended; {to} has its registrants, prefixes and names",
                    escaped(code)
                )
            })
        }
    }
}

fn members(settings: &AgencyFieldArguments) -> Result<[(&'static str, Option<Json>); 3], Failure> {
    let range = settings.range.as_deref().map(|range| match range.split_once('-') {
        Some((first, last)) => Ok(json!({"first": first.trim(), "last": last.trim()})),
        None => Err(Failure::new(format!("`{}` is no range", escaped(range)))
            .hint("a range is written as 10.70000-10.79999")),
    });
    Ok([
        ("metadata", settings.metadata.as_ref().and_then(word)),
        ("range", range.transpose()?),
        ("locations", settings.locations.as_deref().map(Into::into)),
    ])
}
