//! `tendot token`: create, list and revoke API tokens.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, flag_value, json_object};
use crate::cli::ConfigSourceArguments;
use crate::config::load_settings;
use crate::serve::operator_token;
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
  tendot token revoke --cascade 4mzk8qq2
  tendot token rotate-operator --data /var/lib/tendot

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
    ///
    /// Prints the transfers that were proposed with it, which can no longer be accepted, and the tokens that were created with it.
    Revoke {
        /// Token id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Also revoke the tokens that were created with it, and with those
        #[arg(long)]
        cascade: bool,
    },
    /// Replace the operator token of a server in its data directory
    ///
    /// Needs no running server and no credentials, only write access to the directory. A running server uses the new token after
    /// SIGHUP (`systemctl reload tendot`); until then, the old one stays valid.
    RotateOperator {
        /// Data directory of the server [default: tendot-data]
        #[arg(long, value_name = "DIR", help_heading = "Store")]
        data: Option<String>,
        #[command(flatten)]
        configuration: ConfigSourceArguments,
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
    let open = || ApiSession::open(&arguments.registry);
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
            open()?.create(&["tokens"], &[], &body, "token", |created| {
                let id = escape_control(created["id"].as_str().unwrap_or_default());
                format!("token {id} created; it is shown only once")
            })
        }
        TokenCommand::List(list) => open()?.list(ResourceKind::Token, &["tokens"], &[], list.limit),
        TokenCommand::Revoke { id, cascade } => {
            let query: &[(&str, &str)] = if *cascade { &[("cascade", "true")] } else { &[] };
            let session = open()?;
            let outcome = session.delete_with_outcome(&["tokens", id], query)?;
            if session.json {
                print_json(&outcome)?;
            }
            let listed = |member: &str| {
                let ids = outcome[member].as_array().into_iter().flatten();
                ids.filter_map(Json::as_str).map(escape_control).collect::<Vec<_>>()
            };
            for id in listed("revoked") {
                eprint_line(format_args!("token {id} revoked"));
            }
            for id in listed("children") {
                eprint_line(format_args!(
                    "token {id}, which was created with it, stays valid; see --cascade"
                ));
            }
            for id in listed("proposals") {
                eprint_line(format_args!(
                    "transfer {id}, which was proposed with it, can no longer be accepted"
                ));
            }
            Ok(CommandStatus::Success)
        }
        TokenCommand::RotateOperator { data, configuration } => {
            rotate_operator(data.as_ref(), configuration, arguments.registry.json)
        }
    }
}

/// Replaces the operator token in the data directory of the settings.
fn rotate_operator(
    data: Option<&String>,
    configuration: &ConfigSourceArguments,
    json: bool,
) -> Result<CommandStatus, CliError> {
    let flags: Vec<_> = data.map(|data| ("data", "--data", data.clone())).into_iter().collect();
    let settings = load_settings(configuration, &flags)?;
    let Some(directory) = settings.data_dir() else {
        return Err(CliError::new("the memory store has no operator token"));
    };
    let file = operator_token::rotate(&directory)?;
    if json {
        print_json(&json!({"file": file}))?;
    }
    let file = file.display();
    eprint_line(format_args!(
        "new operator token in `{file}`; reload the server with `kill -HUP PID` or `systemctl reload tendot`"
    ));
    Ok(CommandStatus::Success)
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
