//! `tendot key certify`: makes a certificate (HS_CERT) of a key.

use std::path::PathBuf;

use clap::Args;
use tendot_proto::HandleValue;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{CertificatePermission, CertificateScope, ValueReference};
use tendot_proto::trust::{IssuerClaims, sign_certificate};

use super::key_file::{expires_at, read_passphrase, read_private_key_file, read_public_key_file, unix_now};
use crate::terminal::print_json;
use crate::{CliError, CommandStatus};

/// Certify a public key: print an HS_CERT value that permits it to sign
///
/// The value is JSON, for the record of the subject. A certificate whose issuer is its subject is self-signed: it belongs into
/// the record of the trust anchor, whose key verifiers are given with `--anchor`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot key certify rootpub.bin --subject 300:0.0/0.0 --issuer 300:0.0/0.0 --key root.pem --permit everything
  tendot key certify admpub.bin --subject 300:0.NA/10.5555 --issuer 300:0.0/0.0 --key root.pem \\
    --permit handlesUnderThisPrefix:0.NA/10.5555

Exit codes: 0 success, 2 error")]
pub(crate) struct KeyCertifyArguments {
    /// Public key of the subject: PEM, JWK or Handle.Net's format
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Subject: index and handle of its key, such as `300:0.NA/10.5555`
    #[arg(long, value_name = "INDEX:HANDLE")]
    pub(crate) subject: String,

    /// Issuer: index and handle of the key that signs
    #[arg(long, value_name = "INDEX:HANDLE")]
    pub(crate) issuer: String,

    /// Private key of the issuer
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// File with the passphrase of the private key
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// What the subject may sign: `everything`, or `thisHandle`, `handlesUnderThisPrefix` or `derivedPrefixes` with a colon and
    /// a handle; repeatable
    #[arg(long, value_name = "SCOPE[:HANDLE]", required = true, value_parser = parse_permission)]
    pub(crate) permit: Vec<CertificatePermission>,

    /// Certificates of the issuer, the next one first, if they are not in its record; repeatable
    #[arg(long, value_name = "INDEX:HANDLE")]
    pub(crate) chain: Vec<String>,

    /// Validity period in days
    #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) valid_days: u32,

    /// Index of the value
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) index: u32,
}

pub(super) fn run(arguments: &KeyCertifyArguments) -> Result<CommandStatus, CliError> {
    let public = read_public_key_file(&arguments.file)?;
    let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
    let key = read_private_key_file(&arguments.key, passphrase.as_deref())?;
    let unusable = |error: &dyn std::fmt::Display| {
        CliError::new(format!("cannot sign with `{}`: {error}", arguments.key.display()))
    };
    let key = key.signing_key(&AwsLcProvider).map_err(|error| unusable(&error))?;
    let issued_at = unix_now();
    let claims = IssuerClaims {
        issuer: parse_key_reference(&arguments.issuer)?,
        issued_at,
        expires_at: expires_at(issued_at, arguments.valid_days),
        chain: arguments.chain.iter().map(|link| ValueReference::parse(link)).collect(),
    };
    let subject = parse_key_reference(&arguments.subject)?;
    let data = sign_certificate(&subject, &public, &arguments.permit, &claims, &*key)
        .map_err(|error| unusable(&error))?;
    print_json(&HandleValue::with_data(arguments.index, "HS_CERT", data))?;
    Ok(CommandStatus::Success)
}

/// Parses the index and handle of a key.
fn parse_key_reference(text: &str) -> Result<ValueReference<'_>, CliError> {
    let reference = ValueReference::parse(text);
    if reference.index == 0 || reference.handle().validate_for_create().is_err() {
        return Err(CliError::new(format!("invalid key reference `{text}`"))
            .with_hint("use index and handle, such as `300:0.NA/10.5555`"));
    }
    Ok(reference)
}

fn parse_permission(text: &str) -> Result<CertificatePermission, String> {
    let (scope, handle) = text.split_once(':').unwrap_or((text, ""));
    let known = [
        CertificateScope::EVERYTHING,
        CertificateScope::THIS_HANDLE,
        CertificateScope::DERIVED_PREFIXES,
        CertificateScope::HANDLES_UNDER_THIS_PREFIX,
    ];
    let Some(scope) = known.into_iter().find(|known| known.0.eq_ignore_ascii_case(scope)) else {
        return Err(format!(
            "unknown scope `{scope}`; expected everything, thisHandle, derivedPrefixes or handlesUnderThisPrefix"
        ));
    };
    if (scope == CertificateScope::EVERYTHING) != handle.is_empty() {
        return Err(match handle {
            "" => format!("`{}` needs a handle, such as `{}:0.NA/10.5555`", scope.0, scope.0),
            _ => "`everything` has no handle".to_owned(),
        });
    }
    Ok(CertificatePermission { handle: handle.to_owned(), scope })
}
