//! `tendot handle sign`: signs a record (HS_SIGNATURE).

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tendot_client::native::ResolveOptions;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{HandleRecord, RecordSignature, ValueReference};
use tendot_proto::trust::RecordSigner;
use tendot_proto::{Handle, HandleValue};

use super::HandleConnectionArguments;
use super::connection::HandleConnection;
use crate::key::{read_passphrase, read_private_key_file, unix_now};
use crate::resolve::handle_input::parse_handle_input;
use crate::resolve::value_text::format_timestamp;
use crate::terminal::{eprint_line, escape_control, print_json, quote_input};
use crate::{CliError, CommandStatus};

/// Sign a record: write an HS_SIGNATURE value that covers its public values
///
/// The signature names its signer by index and handle of the key value, as `--auth` does. Verifiers look there for a certificate
/// (HS_CERT), see `tendot key certify`. A signature of the same signer is replaced; one of another signer stays. Private values
/// are not signed, because their digests would be public.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle sign 10.5555/1 --server hdl://127.0.0.1:2641 --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle sign 10.5555/1 --record record.json --signer 300:0.NA/10.5555 --signing-key signer.pem

Exit codes: 0 success, 1 handle not found, 2 error")]
pub(crate) struct SignArguments {
    /// Handle, or DOI name in any written form
    #[arg(value_name = "NAME")]
    name: String,

    /// Signer: index and handle of its key [default: `--auth`]
    #[arg(long, value_name = "INDEX:HANDLE")]
    signer: Option<String>,

    /// Private key of the signer: PEM, JWK or Handle.Net's format [default: `--key`]
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,

    /// Validity period in days
    #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    valid_days: u32,

    /// Certificates of the signer, the next one first, if they are not in its record; repeatable
    #[arg(long, value_name = "INDEX:HANDLE")]
    chain: Vec<String>,

    /// Sign the record in this JSON file instead of one at a server, and print it with its signature
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Serialize)]
struct SignatureJson<'a> {
    handle: &'a str,
    index: u32,
    signed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<String>,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &SignArguments,
) -> Result<CommandStatus, CliError> {
    let name = parse_handle_input(&arguments.name)?;
    let signer = load_signer(connection, arguments)?;
    if let Some(file) = &arguments.record {
        let path = file.display();
        let json = fs::read(file).map_err(|error| CliError::io(format!("cannot read `{path}`"), &error))?;
        let mut record = HandleRecord::from_json(&json)
            .map_err(|error| CliError::new(format!("invalid record `{path}`: {error}")))?
            .into_owned();
        if !Handle::from(&*name).eq_ignore_case(Handle::new(&record.handle)) {
            let found = quote_input(&record.handle);
            return Err(CliError::new(format!("`{path}` is the record of `{found}`")));
        }
        sign(&signer, &name, &mut record.values)?;
        print_json(&record)?;
        return Ok(CommandStatus::Success);
    }
    let mut server = HandleConnection::open(connection)?;
    let options = ResolveOptions { is_authoritative: true, ..ResolveOptions::default() };
    let signed = server.resolve(&name, &options).map_err(|error| error.into_cli_error(&name)).and_then(
        |mut values| {
            let stored: Vec<u32> =
                values.iter().filter(|value| signer.is_own(value)).map(|value| value.index).collect();
            sign(&signer, &name, &mut values)?;
            let signature = values.into_iter().find(|value| signer.is_own(value));
            let signature = signature.ok_or_else(|| CliError::new("cannot sign the record"))?;
            server
                .add_values(&name, std::slice::from_ref(&signature), true)
                .map_err(|error| error.into_cli_error(&name))?;
            // Further ones of the same signer are outdated.
            let outdated: Vec<u32> = stored.into_iter().filter(|index| *index != signature.index).collect();
            if !outdated.is_empty() {
                server.remove_values(&name, &outdated).map_err(|error| error.into_cli_error(&name))?;
            }
            Ok(signature)
        },
    );
    server.close();
    report(connection.json, &name, &signed?)
}

fn load_signer(
    connection: &HandleConnectionArguments,
    arguments: &SignArguments,
) -> Result<RecordSigner, CliError> {
    let signer = arguments.signer.as_ref().or(connection.auth.as_ref());
    let key = arguments.signing_key.as_ref().or(connection.key.as_ref());
    let (Some(signer), Some(key)) = (signer, key) else {
        return Err(CliError::new("the signer and its private key are required").with_hint(
            "use `--signer INDEX:HANDLE --signing-key FILE`, or `--auth INDEX:HANDLE --key FILE`",
        ));
    };
    let issuer = ValueReference::parse(signer);
    if issuer.index == 0 || issuer.handle().validate_for_create().is_err() {
        return Err(CliError::new(format!("invalid signer `{}`", quote_input(signer.as_bytes())))
            .with_hint("use index and handle, such as `300:0.NA/10.5555`"));
    }
    let passphrase = read_passphrase(connection.passphrase_file.as_deref())?;
    let private = read_private_key_file(key, passphrase.as_deref())?;
    let private = private
        .signing_key(&AwsLcProvider)
        .map_err(|error| CliError::new(format!("cannot sign with `{}`: {error}", key.display())))?;
    let mut signer = RecordSigner::new(issuer, private.into(), u64::from(arguments.valid_days) * 86_400);
    signer.chain = arguments.chain.iter().map(|link| ValueReference::parse(link).into_owned()).collect();
    Ok(signer)
}

fn sign(signer: &RecordSigner, name: &str, values: &mut Vec<HandleValue<'static>>) -> Result<(), CliError> {
    signer
        .sign(Handle::from(name), values, unix_now(), &AwsLcProvider)
        .map_err(|error| CliError::new(format!("cannot sign the record: {error}")))
}

fn report(json: bool, name: &str, signature: &HandleValue<'_>) -> Result<CommandStatus, CliError> {
    let claims = RecordSignature::from_bytes(&signature.data)
        .map_err(|error| CliError::new(format!("invalid signature: {error}")))?
        .claims;
    let seconds = claims.expires_at.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
    let valid_until = seconds.map(format_timestamp);
    if json {
        let (index, signed_by) = (signature.index, claims.issuer.to_string());
        print_json(&SignatureJson { handle: name, index, signed_by, valid_until })?;
    } else {
        let until = valid_until.unwrap_or_default();
        let line =
            format!("signed `{name}` by {}, valid until {until}, value {}", claims.issuer, signature.index);
        eprint_line(escape_control(&line));
    }
    Ok(CommandStatus::Success)
}
