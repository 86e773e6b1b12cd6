//! `tendot key show`: describes a key file.

use std::path::PathBuf;

use clap::Args;
use data_encoding::BASE64_NOPAD;
use serde::Serialize;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
use tendot_proto::record::{KeyComponents, PublicKey};

use super::key_file::{KeyFile, read_key_file, read_passphrase};
use crate::terminal::{StdoutWriter, print_json};
use crate::{CliError, CommandStatus};

/// Show type, size, fingerprint and public part of a key
///
/// The fingerprint is the SHA-256 hash of the public key as in HS_PUBKEY values, in Base64; private and public key of a pair
/// have the same one. Nothing secret is printed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot key show admpriv.bin
  tendot key show --json signer.pem | jq .jwk

Exit codes: 0 success, 2 error")]
pub(crate) struct KeyShowArguments {
    /// Key file: PEM, JWK or Handle.Net's format
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// File with the passphrase of an encrypted key
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// Print a JSON object: type, bits, private, format, fingerprint, jwk
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct KeyJson {
    #[serde(rename = "type")]
    key_type: &'static str,
    bits: usize,
    private: bool,
    format: String,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwk: Option<serde_json::Value>,
}

pub(super) fn run(arguments: &KeyShowArguments) -> Result<CommandStatus, CliError> {
    let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
    let (key, format) = read_key_file(&arguments.file, passphrase.as_deref())?;
    let unsupported = || {
        let message = format!("`{}` has a private key without its public part", arguments.file.display());
        CliError::new(message).with_hint("RSA keys with primes are supported")
    };
    let public = key.public_key().ok_or_else(unsupported)?;
    let (key_type, bits) = describe(&public);
    let json = KeyJson {
        key_type,
        bits,
        private: matches!(key, KeyFile::Private(_)),
        format: format.name(),
        fingerprint: fingerprint(&public)?,
        jwk: public.jwk().and_then(|jwk| serde_json::to_value(jwk).ok()),
    };
    if arguments.json {
        print_json(&json)?;
        return Ok(CommandStatus::Success);
    }
    let mut output = StdoutWriter::new();
    let kind = if json.private { "private" } else { "public" };
    output.write_line(format_args!("{} {kind} key, {} bits, {}", json.key_type, json.bits, json.format))?;
    output.write_line(format_args!("fingerprint {}", json.fingerprint))?;
    if let Some(jwk) = &json.jwk {
        output.write_line(format_args!("public {jwk}"))?;
    }
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Algorithm and size of a key in bits.
fn describe(key: &PublicKey<'_>) -> (&'static str, usize) {
    let bits = |integer: &[u8]| {
        integer.first().map_or(0, |first| integer.len() * 8 - first.leading_zeros() as usize)
    };
    match key.components() {
        KeyComponents::Rsa { modulus, .. } => ("RSA", bits(modulus)),
        KeyComponents::Dsa { p, .. } => ("DSA", bits(p)),
        KeyComponents::DiffieHellman { p, .. } => ("DH", bits(p)),
    }
}

/// SHA-256 of the encoded key, as OpenSSH writes fingerprints.
pub(super) fn fingerprint(key: &PublicKey<'_>) -> Result<String, CliError> {
    let digest = AwsLcProvider
        .hash(HashAlgorithm::Sha256, &[&key.to_bytes()])
        .map_err(|error| CliError::new(error.to_string()))?;
    Ok(format!("SHA256:{}", BASE64_NOPAD.encode(&digest)))
}
