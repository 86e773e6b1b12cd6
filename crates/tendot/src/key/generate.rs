//! `tendot key generate`: generates an RSA key pair.

use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tendot_proto::auth::PrivateKey;

use super::key_file::{KeyFile, KeyFormat, check_new_file, read_passphrase, write_key_file};
use super::show::fingerprint;
use crate::terminal::{eprint_line, print_json};
use crate::{CliError, CommandStatus};

/// Generate an RSA key pair
///
/// Writes the private key to FILE (mode 0600), or to standard output, in the format of its extension: `.bin` is Handle.Net's,
/// `.json` and `.jwk` are JWK, anything else is PEM.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot key generate admpriv.bin --public admpub.bin
  tendot key generate signer.pem --bits 3072
  tendot key generate admpriv.bin --encrypt-with passphrase.txt

Exit codes: 0 success, 2 error")]
pub(crate) struct KeyGenerateArguments {
    /// Output file of the private key
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Output file of the public key
    #[arg(long, value_name = "FILE")]
    pub(crate) public: Option<PathBuf>,

    /// Key size in bits
    #[arg(long, value_name = "BITS", default_value = "2048")]
    pub(crate) bits: KeySizeArgument,

    /// Format of both files [default: by the extension]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<KeyFormat>,

    /// Encrypt the private key with the passphrase in this file (format `handle-net`)
    #[arg(long, value_name = "FILE")]
    pub(crate) encrypt_with: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,

    /// Print a JSON object: file, public, fingerprint
    #[arg(long, requires = "file", help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct GeneratedJson<'a> {
    file: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<&'a Path>,
    fingerprint: String,
}

/// Size of a generated key.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KeySizeArgument {
    /// all deployed software can verify it
    #[value(name = "2048")]
    Rsa2048,
    /// stronger
    #[value(name = "3072")]
    Rsa3072,
    /// slow to sign with
    #[value(name = "4096")]
    Rsa4096,
}

pub(super) fn run(arguments: &KeyGenerateArguments) -> Result<CommandStatus, CliError> {
    let passphrase = read_passphrase(arguments.encrypt_with.as_deref())?;
    // Nothing is written unless both files can be: the public key of another pair would be taken for that of an existing one.
    check_new_file(arguments.file.as_deref(), arguments.force)?;
    check_new_file(arguments.public.as_deref(), arguments.force)?;
    let key = generate(arguments.bits)?;
    let format = |path: Option<&PathBuf>| {
        arguments.format.unwrap_or_else(|| KeyFormat::of_path(path.map(PathBuf::as_path)))
    };
    let public = key.public_key().ok_or_else(|| CliError::new("key generation failed"))?;
    let fingerprint = fingerprint(&public)?;
    let (public, private) = (KeyFile::Public(public), KeyFile::Private(key));
    let private_bytes = private.encode(format(arguments.file.as_ref()), passphrase.as_deref())?;
    let public_bytes =
        arguments.public.as_ref().map(|path| public.encode(format(Some(path)), None)).transpose()?;
    // The private key first: its public key can be made again.
    write_key_file(arguments.file.as_deref(), &private, &private_bytes, arguments.force)?;
    if let (Some(path), Some(bytes)) = (&arguments.public, &public_bytes) {
        write_key_file(Some(path), &public, bytes, arguments.force)?;
    }
    if arguments.json {
        let (file, public) = (arguments.file.as_deref(), arguments.public.as_deref());
        print_json(&GeneratedJson { file, public, fingerprint })?;
    }
    for path in arguments.file.iter().chain(&arguments.public) {
        eprint_line(format_args!("wrote `{}`", path.display()));
    }
    Ok(CommandStatus::Success)
}

fn generate(size: KeySizeArgument) -> Result<PrivateKey, CliError> {
    let size = match size {
        KeySizeArgument::Rsa2048 => KeySize::Rsa2048,
        KeySizeArgument::Rsa3072 => KeySize::Rsa3072,
        KeySizeArgument::Rsa4096 => KeySize::Rsa4096,
    };
    let failed = || CliError::new("key generation failed");
    let pair = KeyPair::generate(size).map_err(|_| failed())?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| failed())?;
    PrivateKey::from_pkcs8_der(der.as_ref()).map_err(|_| failed())
}
