//! `tendot handle`: administers handle records at a server, over REST or the native protocol.
//!
//! `connection.rs` has the operations of both protocols and their errors, `credentials.rs` the identity, `value_argument.rs` the
//! values on the command line; then one file per verb: `create.rs`, `show.rs`, `update.rs`, `delete.rs`, `list.rs`, `home.rs`,
//! `unhome.rs`, `sign.rs`, `batch.rs`. `batch_language.rs` parses batch files, also for `tendot import`, and `journal.rs` makes a
//! batch resumable.

mod batch;
pub(crate) mod batch_language;
mod connection;
mod create;
mod credentials;
mod delete;
mod home;
mod journal;
mod list;
mod show;
mod sign;
mod unhome;
mod update;
mod value_argument;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::terminal::{eprint_line, print_json};
use crate::{CliError, CommandStatus};

/// Administer handle records at a server
///
/// Uses the native protocol (`--server hdl://HOST[:PORT]`) or the JSON API of Handle.Net (`--server https://HOST`), at Tendot and
/// Handle.Net servers. Authenticate as a handle identity with `--auth` and a private key or secret key, or at a Tendot server over
/// HTTP with an API token.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle create 10.5555/1 1:URL:https://example.org/1 --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle update 10.5555/1 1,ttl=3600:URL:https://example.org/2 --token-file tendot-data/operator.token
  tendot handle show 10.5555/1 --server hdl://127.0.0.1:2641
  tendot handle list 10.5555 --server https://handle.example.org --auth 301:0.NA/10.5555 --secret-file secret.txt
  tendot handle batch changes.txt --server hdl://handle.example.org --server-key pubkey.bin

Exit codes: 0 success, 1 not found, already exists or an entry failed, 2 error")]
pub(crate) struct HandleArguments {
    #[command(flatten)]
    pub(crate) connection: HandleConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: HandleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandleCommand {
    Create(create::CreateArguments),
    Show(show::ShowArguments),
    Update(update::UpdateArguments),
    Delete(delete::DeleteArguments),
    List(list::HandleListArguments),
    Home(home::HomeArguments),
    Unhome(unhome::UnhomeArguments),
    Sign(sign::SignArguments),
    Batch(batch::BatchArguments),
}

/// Server and credentials; all handle commands have these.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandleConnectionArguments {
    /// Server: `hdl://HOST[:PORT]` (native protocol) or `https://HOST` (JSON API) [env: TENDOT_SERVER] [default:
    /// http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true, help_heading = "Connection")]
    pub(crate) server: Option<String>,

    /// Trust the certificates in this PEM file instead of the public CAs (HTTPS)
    #[arg(long, value_name = "FILE", global = true, help_heading = "Connection")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Public key of the server (pubkey.bin): with `hdl://`, requests are sent in an encrypted session; with `https://`, it
    /// replaces the CAs
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "ca_file", help_heading = "Connection")]
    pub(crate) server_key: Option<PathBuf>,

    /// Identity: index and handle of the key value, such as `300:0.NA/10.5555`
    #[arg(long, value_name = "INDEX:HANDLE", global = true, help_heading = "Authentication")]
    pub(crate) auth: Option<String>,

    /// Private key of the identity (HS_PUBKEY): PEM, JWK or a file of Handle.Net such as admpriv.bin
    #[arg(long, value_name = "FILE", global = true, requires = "auth", help_heading = "Authentication")]
    pub(crate) key: Option<PathBuf>,

    /// Read the passphrase of an encrypted key from this file [default: ask]
    #[arg(long, value_name = "FILE", global = true, requires = "key", help_heading = "Authentication")]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// Read the secret key of the identity (HS_SECKEY) from this file [default without `--key`: ask]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        requires = "auth",
        conflicts_with = "key",
        help_heading = "Authentication"
    )]
    pub(crate) secret_file: Option<PathBuf>,

    /// API token of a Tendot server (HTTP), visible in the process list [env: TENDOT_TOKEN]
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        conflicts_with = "auth",
        help_heading = "Authentication"
    )]
    pub(crate) token: Option<String>,

    /// Read the API token from this file [env: TENDOT_TOKEN_FILE]
    #[arg(long, value_name = "FILE", global = true, conflicts_with_all = ["token", "auth"],
          help_heading = "Authentication")]
    pub(crate) token_file: Option<PathBuf>,

    /// Print JSON, one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &HandleArguments) -> Result<CommandStatus, CliError> {
    let connection = &arguments.connection;
    match &arguments.command {
        HandleCommand::Create(arguments) => create::run(connection, arguments),
        HandleCommand::Show(arguments) => show::run(connection, arguments),
        HandleCommand::Update(arguments) => update::run(connection, arguments),
        HandleCommand::Delete(arguments) => delete::run(connection, arguments),
        HandleCommand::List(arguments) => list::run(connection, arguments),
        HandleCommand::Home(arguments) => home::run(connection, arguments),
        HandleCommand::Unhome(arguments) => unhome::run(connection, arguments),
        HandleCommand::Sign(arguments) => sign::run(connection, arguments),
        HandleCommand::Batch(arguments) => batch::run(connection, arguments),
    }
}

/// Result of a write as JSON.
#[derive(Serialize)]
struct WriteJson<'a> {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: &'a str,
}

/// Reports a successful write: `verb` on stderr, and JSON on stdout if requested.
fn report_write(json: bool, verb: &str, handle: &str) -> Result<CommandStatus, CliError> {
    if json {
        print_json(&WriteJson { code: tendot_proto::ResponseCode::SUCCESS.0, handle })?;
    }
    eprint_line(format_args!("{verb} `{}`", crate::terminal::escape_control(handle)));
    Ok(CommandStatus::Success)
}
