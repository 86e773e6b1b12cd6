//! `tendot token`

use jiff::civil::Date;
use serde_json::{Value as Json, json};

use crate::args::{TokenArguments, TokenCommand};
use crate::failure::{eprint_line, escape_control};
use crate::output::StdoutWriter;
use crate::registry::{ApiSession, ResourceKind, flag_value, json_object};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &TokenArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        TokenCommand::Add { role, subject, scopes, prefixes, expires, label } => {
            let scopes: Option<Vec<Json>> = scopes.iter().map(flag_value).collect();
            let body = json_object([
                ("role", flag_value(role)),
                ("subject", subject.as_deref().map(Into::into)),
                ("scopes", scopes.filter(|scopes| !scopes.is_empty()).map(Json::Array)),
                ("prefixes", (!prefixes.is_empty()).then(|| json!(prefixes))),
                ("expires", expires.as_deref().map(|expires| expand_date(expires).into())),
                ("label", label.as_deref().map(Into::into)),
            ]);
            session.create(&["tokens"], &[], &body, "token", |made| {
                let id = escape_control(made["id"].as_str().unwrap_or_default());
                format!("the token {id} is made; it is not shown again")
            })
        }
        TokenCommand::List(list) => session.list(ResourceKind::Token, &["tokens"], &[], list.limit),
        TokenCommand::Revoke { id } => {
            session.delete(&["tokens", id])?;
            if session.json {
                let mut output = StdoutWriter::new();
                output.write_json(&json!({"id": id, "revoked": true}))?;
                output.flush()?;
            }
            eprint_line(format_args!("the token {} is revoked", escape_control(id)));
            Ok(CommandStatus::Yes)
        }
    }
}

/// A date is its beginning; all else is for the service to judge.
fn expand_date(written: &str) -> String {
    match written.parse::<Date>() {
        Ok(date) if written.len() == 10 => format!("{date}T00:00:00Z"),
        _ => written.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let check = |written: &str, expected: &str| assert_eq!(expand_date(written), expected);
        check("2027-01-31", "2027-01-31T00:00:00Z");
        check("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z");
        check("2027-02-31", "2027-02-31");
        check("soon", "soon");
    }
}
