//! `tendot transfer`: create, list, show, accept and decline transfers of DOI names and prefixes, and closures of agencies.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind, json_object};
use crate::resolve::handle_input::parse_handle_input;
use crate::terminal::{ConfirmationArguments, escape_control};
use crate::{CliError, CommandStatus};

/// Transfer DOI names and prefixes between registrants
///
/// A transfer is proposed by the current registrant and takes effect when the receiving registrant accepts it. The closure of an
/// agency (`tendot agency close`) is a transfer between agencies and is accepted in the same way. Uses the HTTP API of a running
/// server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  ID=$(tendot transfer create 10.70000/abc 10.70000/def --to $OTHER)
  tendot transfer create --prefix 10.70007 --to $OTHER
  tendot transfer create --prefix 10.70007 --to $OTHER --force --dry-run
  tendot transfer list
  tendot transfer accept $ID

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct TransferArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: TransferCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TransferCommand {
    /// Propose a transfer of DOI names or a prefix and print its id
    ///
    /// With `--force` the operator transfers at once, after confirmation; without a terminal, `--yes` is required.
    Create {
        /// DOI names
        #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix",
              value_parser = NonEmptyStringValueParser::new())]
        names: Vec<String>,
        /// Prefix with all its DOI names
        #[arg(long, value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: Option<String>,
        /// Receiving registrant
        #[arg(long, value_name = "ID")]
        to: String,
        /// Transfer without acceptance (operator only)
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        confirmation: ConfirmationArguments,
    },
    /// List your incoming and outgoing transfers
    List(ListArguments),
    /// Show a transfer
    Show {
        /// Transfer id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Accept a transfer
    Accept {
        /// Transfer id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Decline a transfer, or withdraw your own proposal
    Decline {
        /// Transfer id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

pub(crate) fn run(arguments: &TransferArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        TransferCommand::Create { names, prefix, to, force, confirmation } => {
            let names: Vec<_> =
                names.iter().map(|name| parse_handle_input(name)).collect::<Result<_, _>>()?;
            let body = json_object([
                ("names", (!names.is_empty()).then(|| json!(names))),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("to", Some(to.as_str().into())),
                ("force", Some((*force).into())),
            ]);
            if let Some(status) = confirm_transfer(&session, &body, *force, *confirmation)? {
                return Ok(status);
            }
            session.create(&["transfers"], &[], &body, "id", transfer_message)
        }
        TransferCommand::List(list) => session.list(ResourceKind::Transfer, &["transfers"], &[], list.limit),
        TransferCommand::Show { id } => session.show(ResourceKind::Transfer, &["transfers", id]),
        TransferCommand::Accept { id } => {
            session.post_action(ResourceKind::Transfer, &["transfers", id, "accept"])
        }
        TransferCommand::Decline { id } => {
            session.post_action(ResourceKind::Transfer, &["transfers", id, "decline"])
        }
    }
}

/// Asks before a forced transfer; a proposal can be withdrawn. Returns the exit status if nothing is to be written.
pub(super) fn confirm_transfer(
    session: &ApiSession,
    body: &Json,
    force: bool,
    confirmation: ConfirmationArguments,
) -> Result<Option<CommandStatus>, CliError> {
    if !force && !confirmation.dry_run {
        return Ok(None);
    }
    confirmation.confirm(|| Ok(transfer_effect(&session.plan_creation(&["transfers"], body)?)))
}

/// Effect of a planned transfer.
fn transfer_effect(planned: &Json) -> String {
    let text = |name: &str| escape_control(planned[name].as_str().unwrap_or_default());
    let from = planned["from"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let (from, to) = (escape_control(&from.collect::<Vec<_>>().join(", ")), text("to"));
    let is_done = planned["state"] == "done";
    let subject = match (&planned["agency"], &planned["prefix"], planned["names"].as_array()) {
        (Json::String(_), ..) if is_done => {
            return format!(
                "agency {from} will be closed for good; its registrants, prefixes and DOI names will belong to {to}"
            );
        }
        (Json::String(_), ..) => return format!("the closure of agency {from} will be proposed to {to}"),
        (_, Json::String(_), _) => format!("prefix {} with its DOI names", text("prefix")),
        (.., Some(names)) if names.len() == 1 => "1 DOI name".into(),
        (.., names) => format!("{} DOI names", names.map_or(0, Vec::len)),
    };
    let action = if is_done { "will be transferred" } else { "will be proposed for transfer" };
    format!("{subject} {action} from {from} to {to}")
}

/// Message about a new transfer: proposed, or done at once.
fn transfer_message(created: &Json) -> String {
    let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
    match created["state"].as_str() {
        Some("done") => format!("transferred to {}", text("to")),
        _ => format!(
            "transfer proposed; {} accepts it with `tendot transfer accept {}`",
            text("to"),
            text("id")
        ),
    }
}
