//! `tendot session`: list and end authenticated sessions of a server.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind};
use crate::terminal::{eprint_line, escape_control, print_json};
use crate::{CliError, CommandStatus};

/// List and end sessions of a server
///
/// Authenticated sessions of the native protocol and of `/api/sessions`; needs an operator token. A client whose session is
/// ended can authenticate again; to prevent that, remove its key from the record, which ends its sessions, too. Uses the
/// HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot session list
  tendot session end native-1274837423

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct SessionArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List authenticated sessions
    List(ListArguments),
    /// End a session
    End {
        /// Session id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

pub(crate) fn run(arguments: &SessionArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        SessionCommand::List(list) => session.list(ResourceKind::Session, &["sessions"], &[], list.limit),
        SessionCommand::End { id } => {
            session.delete(&["sessions", id])?;
            if session.json {
                print_json(&json!({"id": id, "ended": true}))?;
            }
            eprint_line(format_args!("session {} ended", escape_control(id)));
            Ok(CommandStatus::Success)
        }
    }
}
