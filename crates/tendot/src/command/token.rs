//! `tendot token`

use jiff::civil::Date;
use serde_json::{Value as Json, json};

use crate::args::{TokenArguments, TokenCommand};
use crate::failure::{escaped, tell};
use crate::output::Output;
use crate::registry::{Noun, Session, form, word};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &TokenArguments) -> Result<Answer, Failure> {
    let session = Session::open(&arguments.registry)?;
    match &arguments.command {
        TokenCommand::Add { role, subject, scopes, prefixes, expires, label } => {
            let scopes: Option<Vec<Json>> = scopes.iter().map(word).collect();
            let body = form([
                ("role", word(role)),
                ("subject", subject.as_deref().map(Into::into)),
                ("scopes", scopes.filter(|scopes| !scopes.is_empty()).map(Json::Array)),
                ("prefixes", (!prefixes.is_empty()).then(|| json!(prefixes))),
                ("expires", expires.as_deref().map(|expires| moment(expires).into())),
                ("label", label.as_deref().map(Into::into)),
            ]);
            session.add(&["tokens"], &[], &body, "token", |made| {
                let id = escaped(made["id"].as_str().unwrap_or_default());
                format!("the token {id} is made; it is not shown again")
            })
        }
        TokenCommand::List(list) => session.list(Noun::Token, &["tokens"], &[], list.limit),
        TokenCommand::Revoke { id } => {
            session.end(&["tokens", id])?;
            if session.json {
                let mut output = Output::new();
                output.json(&json!({"id": id, "revoked": true}))?;
                output.flush()?;
            }
            tell(format_args!("the token {} is revoked", escaped(id)));
            Ok(Answer::Yes)
        }
    }
}

/// A date is its beginning; all else is for the service to judge.
fn moment(written: &str) -> String {
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
        let check = |written: &str, expected: &str| assert_eq!(moment(written), expected);
        check("2027-01-31", "2027-01-31T00:00:00Z");
        check("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z");
        check("2027-02-31", "2027-02-31");
        check("soon", "soon");
    }
}
