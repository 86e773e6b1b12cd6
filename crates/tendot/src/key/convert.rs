//! `tendot key convert`: writes a key in another format.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::key_file::{KeyFile, KeyFormat, read_key_file, read_passphrase, write_key_file};
use crate::terminal::print_json;
use crate::{CliError, CommandStatus};

/// Convert a key between PEM, JWK and Handle.Net's format
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot key convert admpriv.bin admpriv.pem
  tendot key convert --public admpriv.bin admpub.bin
  tendot key convert signer.pem --to jwk
  tendot key convert signer.pem admpriv.bin --encrypt-with passphrase.txt

Exit codes: 0 success, 2 error")]
pub(crate) struct KeyConvertArguments {
    /// Key file: PEM, JWK or Handle.Net's format
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Output file; without it, standard output
    #[arg(value_name = "OUTPUT")]
    pub(crate) output: Option<PathBuf>,

    /// Output format [default: by the extension of OUTPUT]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<KeyFormat>,

    /// Write the public key of a private key
    #[arg(long)]
    pub(crate) public: bool,

    /// File with the passphrase of an encrypted key
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// Encrypt the private key with the passphrase in this file (format `handle-net`)
    #[arg(long, value_name = "FILE")]
    pub(crate) encrypt_with: Option<PathBuf>,

    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,

    /// Print a JSON object: file, format
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct ConvertedJson<'a> {
    file: Option<&'a Path>,
    format: String,
}

pub(super) fn run(arguments: &KeyConvertArguments) -> Result<CommandStatus, CliError> {
    let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
    let encrypt_with = read_passphrase(arguments.encrypt_with.as_deref())?;
    let (mut key, _) = read_key_file(&arguments.file, passphrase.as_deref())?;
    if arguments.public {
        let missing = || CliError::new(format!("`{}` has no public key", arguments.file.display()));
        key = KeyFile::Public(key.public_key().ok_or_else(missing)?);
    }
    let format = arguments.to.unwrap_or_else(|| KeyFormat::of_path(arguments.output.as_deref()));
    let bytes = key.encode(format, encrypt_with.as_deref())?;
    write_key_file(arguments.output.as_deref(), &key, &bytes, arguments.force)?;
    if arguments.json {
        print_json(&ConvertedJson { file: arguments.output.as_deref(), format: format.name() })?;
    }
    Ok(CommandStatus::Success)
}
