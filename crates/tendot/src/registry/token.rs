//! `tendot token`: create, list and revoke API tokens.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, flag_value, json_object};
use crate::terminal::{StdoutWriter, eprint_line, escape_control};
use crate::{CliError, CommandStatus};

/// Tokens, by which a service knows who asks
///
/// A token is shown once, when it is made. Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  TENDOT_TOKEN=$(tendot token add --role registrant --subject $PRESS --scope deposit --label 'nightly import')
  tendot token list
  tendot token revoke 4mzk8qq2

Exit codes: 0 done, 1 there is no such token or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct TokenArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it
    Add {
        /// For whom it is
        #[arg(long, value_name = "ROLE")]
        role: RoleArgument,
        /// The agency's code or the registrant's id; none for the operator
        #[arg(long, value_name = "SUBJECT")]
        subject: Option<String>,
        /// What it is for; may be repeated [default: all that the role may]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<ScopeArgument>,
        /// Which prefix it is for; may be repeated [default: all]
        #[arg(long = "prefix", value_name = "PREFIX")]
        prefixes: Vec<String>,
        /// Until when: a date, or a time such as 2027-01-31T12:00:00Z [default: until it is revoked]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// What it is for, in words
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// Print tokens, without what is secret of them
    List(ListArguments),
    /// Revoke a token, at once
    Revoke {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

/// For whom a token is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArgument {
    /// Who runs the service
    Operator,
    /// An agency
    Agency,
    /// A registrant
    Registrant,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeArgument {
    /// Reading what not everybody may
    Read,
    /// Registering and changing names
    Deposit,
    /// Giving names away and taking them
    Transfer,
    /// Registrants, prefixes and tokens
    Administer,
}

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
            session.create(&["tokens"], &[], &body, "token", |created| {
                let id = escape_control(created["id"].as_str().unwrap_or_default());
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
            Ok(CommandStatus::Success)
        }
    }
}

/// Expands a date to midnight UTC; other text is left to the server to validate.
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
