//! `tendot token`: create, list and revoke API tokens.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, flag_value, json_object};
use crate::terminal::{eprint_line, escape_control, print_json};
use crate::{CliError, CommandStatus};

/// Manage API tokens
///
/// A token is shown once, when it is created. Uses the HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  TENDOT_TOKEN=$(tendot token create --role registrant --subject $PRESS --scope deposit --label 'nightly import')
  tendot token list
  tendot token revoke 4mzk8qq2

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct TokenArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create {
        /// Role
        #[arg(long, value_name = "ROLE")]
        role: RoleArgument,
        /// Agency code or registrant id; none for the operator
        #[arg(long, value_name = "SUBJECT")]
        subject: Option<String>,
        /// Scope; repeatable [default: all scopes of the role]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<ScopeArgument>,
        /// Restrict to this prefix; repeatable
        #[arg(long = "prefix", value_name = "PREFIX")]
        prefixes: Vec<String>,
        /// Expiry date or time, such as 2027-01-31T12:00:00Z [default: never]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Label
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List tokens without their secrets
    List(ListArguments),
    /// Revoke a token immediately
    Revoke {
        /// Token id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

/// Role of a token.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArgument {
    /// operator of the server
    Operator,
    /// registration agency
    Agency,
    /// registrant
    Registrant,
}

/// Scope of a token.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeArgument {
    /// read private data
    Read,
    /// register and update DOI names
    Deposit,
    /// propose and accept transfers
    Transfer,
    /// manage registrants, prefixes and tokens
    Administer,
}

pub(crate) fn run(arguments: &TokenArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        TokenCommand::Create { role, subject, scopes, prefixes, expires, label } => {
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
                format!("token {id} created; it is shown only once")
            })
        }
        TokenCommand::List(list) => session.list(ResourceKind::Token, &["tokens"], &[], list.limit),
        TokenCommand::Revoke { id } => {
            session.delete(&["tokens", id])?;
            if session.json {
                print_json(&json!({"id": id, "revoked": true}))?;
            }
            eprint_line(format_args!("token {} revoked", escape_control(id)));
            Ok(CommandStatus::Success)
        }
    }
}

/// Expands a date to midnight UTC; other text is left to the server to validate.
fn expand_date(text: &str) -> String {
    match text.parse::<Date>() {
        Ok(date) if text.len() == 10 => format!("{date}T00:00:00Z"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_dates() {
        let check = |text: &str, expected: &str| assert_eq!(expand_date(text), expected);
        check("2027-01-31", "2027-01-31T00:00:00Z");
        check("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z");
        check("2027-02-31", "2027-02-31");
        check("soon", "soon");
    }
}
