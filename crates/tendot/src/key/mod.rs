//! `tendot key`: keys and certificates of the Handle System, without a server.
//!
//! `key_file.rs` reads and writes keys in every format, `pem.rs` is its PEM codec, `anchor.rs` reads trust anchors; then one file per
//! command: `generate.rs`, `show.rs`, `convert.rs`, `certify.rs`.

mod anchor;
mod certify;
mod convert;
mod generate;
mod key_file;
mod pem;
mod show;

pub(crate) use anchor::read_trust_anchors;
use certify::KeyCertifyArguments;
use clap::{Args, Subcommand};
use convert::KeyConvertArguments;
use generate::KeyGenerateArguments;
pub(crate) use key_file::{
    read_passphrase, read_private_key_file, read_public_key_file, read_secret_file,
    read_server_private_key_file, read_small_file, unix_now,
};
use show::KeyShowArguments;

use crate::{CliError, CommandStatus};

/// Generate, show, convert and certify keys
///
/// Private keys sign records and authenticate administrators; their public keys are in HS_PUBKEY values. All commands read PEM,
/// JWK and the files of Handle.Net (.bin), and recognize the format by the content.
#[derive(Args, Debug)]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    Generate(KeyGenerateArguments),
    Show(KeyShowArguments),
    Convert(KeyConvertArguments),
    Certify(KeyCertifyArguments),
}

pub(crate) fn run(arguments: &KeyArguments) -> Result<CommandStatus, CliError> {
    match &arguments.command {
        KeyCommand::Generate(arguments) => generate::run(arguments),
        KeyCommand::Show(arguments) => show::run(arguments),
        KeyCommand::Convert(arguments) => convert::run(arguments),
        KeyCommand::Certify(arguments) => certify::run(arguments),
    }
}
