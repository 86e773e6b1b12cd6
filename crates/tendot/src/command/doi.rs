//! `tendot doi`

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Value as Json, json};
use tendot_registry::metadata::{KernelMetadata, MetadataFault};

use super::resolve::name_in;
use crate::args::{RegistrationArguments, DoiArguments, DoiCommand};
use crate::failure::{escaped, shown, tell};
use crate::registry::{Noun, Session, form, import};
use crate::store::is_standard;
use crate::{Answer, Failure};

/// Bytes of a file of metadata at most; the service takes no more.
const LARGEST: u64 = 2 << 20;

pub(crate) fn run(arguments: &DoiArguments) -> Result<Answer, Failure> {
    let session = Session::open(&arguments.registry)?;
    match &arguments.command {
        DoiCommand::Add { name, prefix, reserve, deposit } => {
            let name = name.as_deref().map(|name| Json::from(&*name_in(name)));
            let state = reserve.then_some("reserved");
            let target = [
                ("name", name),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("state", state.map(Into::into)),
            ];
            let body = form(target.into_iter().chain(members(deposit)?));
            session.add(&["dois"], dry(deposit), &body, "name", |made| {
                let text = |name: &str| escaped(made[name].as_str().unwrap_or_default());
                let would = if deposit.dry_run { "would be" } else { "is" };
                format!("{} {would} {}", text("name"), text("state"))
            })
        }
        DoiCommand::Show { name } => session.show(Noun::Name, &["dois", &name_in(name)]),
        DoiCommand::Set { name, register, deposit } => {
            let state = ("state", register.then_some("registered".into()));
            let body = form(std::iter::once(state).chain(members(deposit)?));
            session.set(Noun::Name, &["dois", &name_in(name)], dry(deposit), &body, None)
        }
        DoiCommand::End { name } => {
            let reply = session.end(&["dois", &name_in(name)])?;
            session.print(Noun::Name, &reply)?;
            tell("it has ended, and is never given again");
            Ok(Answer::Yes)
        }
        DoiCommand::List { prefix, registrant, list } => {
            let query = [("prefix", prefix.as_deref()), ("registrant", registrant.as_deref())];
            session.list(Noun::Name, &["dois"], &query, list.limit)
        }
        DoiCommand::History { name, list } => {
            session.list(Noun::Change, &["history", &name_in(name)], &[], list.limit)
        }
        DoiCommand::Transfer { names, receiver } => {
            let names: Vec<_> = names.iter().map(|name| name_in(name)).collect();
            let body = json!({"names": names, "to": receiver.to, "force": receiver.force});
            session.add(&["transfers"], &[], &body, "id", tell_of_transfer)
        }
        DoiCommand::Accept { id } => session.act(Noun::Transfer, &["transfers", id, "accept"]),
        DoiCommand::Decline { id } => session.act(Noun::Transfer, &["transfers", id, "decline"]),
        DoiCommand::Transfers(list) => session.list(Noun::Transfer, &["transfers"], &[], list.limit),
        DoiCommand::Import(arguments) => import(&session, arguments),
    }
}

/// What became of a transfer that was asked for.
pub(super) fn tell_of_transfer(made: &Json) -> String {
    let text = |name: &str| escaped(made[name].as_str().unwrap_or_default());
    match made["state"].as_str() {
        Some("done") => format!("the transfer to {} is done", text("to")),
        _ => format!(
            "the transfer is proposed; {} accepts it with `tendot doi accept {}`",
            text("to"),
            text("id")
        ),
    }
}

const fn dry(deposit: &RegistrationArguments) -> &'static [(&'static str, &'static str)] {
    if deposit.dry_run { &[("dry-run", "true")] } else { &[] }
}

fn members(deposit: &RegistrationArguments) -> Result<[(&'static str, Option<Json>); 3], Failure> {
    let values: Result<Vec<_>, _> = deposit.values.iter().map(|written| value(written)).collect();
    let metadata = deposit.metadata.as_deref().map(metadata).transpose()?;
    Ok([
        ("url", deposit.url.as_deref().map(Into::into)),
        ("values", Some(values?).filter(|values| !values.is_empty()).map(Json::Array)),
        ("metadata", metadata),
    ])
}

/// A value as `INDEX:LOCATION_TYPE:DATA`, or as in a record.
fn value(written: &str) -> Result<Json, Failure> {
    let wrong = |why: &str| {
        Failure::new(format!("`{}` is no value: {why}", shown(written.as_bytes())))
            .hint("such as `3:EMAIL:doi@example.org` or `{\"index\":3,\"type\":\"EMAIL\",\"data\":\"doi@example.org\"}`")
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

/// Metadata as JSON: what is XML is read here, as the service would.
fn metadata(file: &Path) -> Result<Json, Failure> {
    let name = if is_standard(file) { "standard input".into() } else { format!("`{}`", file.display()) };
    let failed = |error| Failure::io(format!("{name} can't be read"), &error);
    let source: Box<dyn Read> =
        if is_standard(file) { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut text = String::new();
    source.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(Failure::new(format!("{name} has more than {LARGEST} bytes")));
    }
    let text = text.trim_start_matches('\u{feff}');
    let text = if text.trim_start().starts_with('<') {
        KernelMetadata::from_xml(text).map_err(|faults| wrong(&name, &faults))?.to_json()
    } else {
        text.to_owned()
    };
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("{name} is no JSON: {error}")))
}

fn wrong(name: &str, faults: &[MetadataFault]) -> Failure {
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| format!("\n  {} at {}", escaped(&fault.message), escaped(&fault.pointer)))
        .collect();
    Failure::new(format!("{name} is no kernel metadata:{}", faults.concat())).refusal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check =
            |written: &str, expected: Json| assert_eq!(value(written).unwrap(), expected, "{written}");
        check("3:EMAIL:a@b.org", json!({"index": 3, "type": "EMAIL", "data": "a@b.org"}));
        check("2:URL:https://a.org/", json!({"index": 2, "type": "URL", "data": "https://a.org/"}));
        check("{\"index\":3}", json!({"index": 3}));
        for wrong in ["", "3:EMAIL", "x:EMAIL:a", "{", "-1:EMAIL:a"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
