//! `tendot doi`

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Value as Json, json};
use tendot_registry::metadata::{KernelMetadata, MetadataFault};

use super::resolve::parse_handle_input;
use crate::args::{DoiArguments, DoiCommand, RegistrationArguments};
use crate::failure::{eprint_line, escape_control, shown};
use crate::registry::{ApiSession, ResourceKind, import, json_object};
use crate::store::is_stdio;
use crate::{CliError, CommandStatus};

/// Bytes of a file of metadata at most; the service takes no more.
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
            let body = json_object(target.into_iter().chain(members(deposit)?));
            session.create(&["dois"], dry_run_query(deposit), &body, "name", |made| {
                let text = |name: &str| escape_control(made[name].as_str().unwrap_or_default());
                let would = if deposit.dry_run { "would be" } else { "is" };
                format!("{} {would} {}", text("name"), text("state"))
            })
        }
        DoiCommand::Show { name } => session.show(ResourceKind::Name, &["dois", &parse_handle_input(name)]),
        DoiCommand::Set { name, register, deposit } => {
            let state = ("state", register.then_some("registered".into()));
            let body = json_object(std::iter::once(state).chain(members(deposit)?));
            session.update(
                ResourceKind::Name,
                &["dois", &parse_handle_input(name)],
                dry_run_query(deposit),
                &body,
                None,
            )
        }
        DoiCommand::End { name } => {
            let reply = session.delete(&["dois", &parse_handle_input(name)])?;
            session.print(ResourceKind::Name, &reply)?;
            eprint_line("it has ended, and is never given again");
            Ok(CommandStatus::Yes)
        }
        DoiCommand::List { prefix, registrant, list } => {
            let query = [("prefix", prefix.as_deref()), ("registrant", registrant.as_deref())];
            session.list(ResourceKind::Name, &["dois"], &query, list.limit)
        }
        DoiCommand::History { name, list } => {
            session.list(ResourceKind::Change, &["history", &parse_handle_input(name)], &[], list.limit)
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

/// What became of a transfer that was asked for.
pub(super) fn transfer_message(made: &Json) -> String {
    let text = |name: &str| escape_control(made[name].as_str().unwrap_or_default());
    match made["state"].as_str() {
        Some("done") => format!("the transfer to {} is done", text("to")),
        _ => format!(
            "the transfer is proposed; {} accepts it with `tendot doi accept {}`",
            text("to"),
            text("id")
        ),
    }
}

const fn dry_run_query(deposit: &RegistrationArguments) -> &'static [(&'static str, &'static str)] {
    if deposit.dry_run { &[("dry-run", "true")] } else { &[] }
}

fn members(deposit: &RegistrationArguments) -> Result<[(&'static str, Option<Json>); 3], CliError> {
    let values: Result<Vec<_>, _> =
        deposit.values.iter().map(|written| parse_value_argument(written)).collect();
    let metadata = deposit.metadata.as_deref().map(read_metadata_file).transpose()?;
    Ok([
        ("url", deposit.url.as_deref().map(Into::into)),
        ("values", Some(values?).filter(|values| !values.is_empty()).map(Json::Array)),
        ("metadata", metadata),
    ])
}

/// A value as `INDEX:LOCATION_TYPE:DATA`, or as in a record.
fn parse_value_argument(written: &str) -> Result<Json, CliError> {
    let wrong = |why: &str| {
        CliError::new(format!("`{}` is no value: {why}", shown(written.as_bytes())))
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

/// Metadata as JSON: what is XML is read here, as the service would.
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
    CliError::new(format!("{name} is no kernel metadata:{}", faults.concat())).refusal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |written: &str, expected: Json| {
            assert_eq!(parse_value_argument(written).unwrap(), expected, "{written}")
        };
        check("3:EMAIL:a@b.org", json!({"index": 3, "type": "EMAIL", "data": "a@b.org"}));
        check("2:URL:https://a.org/", json!({"index": 2, "type": "URL", "data": "https://a.org/"}));
        check("{\"index\":3}", json!({"index": 3}));
        for wrong in ["", "3:EMAIL", "x:EMAIL:a", "{", "-1:EMAIL:a"] {
            assert!(parse_value_argument(wrong).is_err(), "{wrong}");
        }
    }
}
