//! Identity or token that authenticates a handle command.

use std::path::Path;

use tendot_client::native::AdminIdentity;
use tendot_proto::ValueReference;

use super::HandleConnectionArguments;
use super::batch_language::{BatchIdentity, BatchKey};
use crate::CliError;
use crate::key::{read_passphrase, read_private_key_file, read_secret_file};
use crate::registry::read_token;
use crate::terminal::{prompt_secret, quote_input};

/// Credentials of a handle command.
#[derive(Debug)]
pub(super) enum Credentials {
    Anonymous,
    Token(String),
    Identity(AdminIdentity),
}

impl Credentials {
    /// Credentials of the arguments and environment variables; asks for a secret if it is not given.
    pub(super) fn from_arguments(arguments: &HandleConnectionArguments) -> Result<Self, CliError> {
        let Some(identity) = &arguments.auth else {
            let token = read_token(arguments.token.as_deref(), arguments.token_file.as_deref())?;
            return Ok(token.map_or(Self::Anonymous, Self::Token));
        };
        let reference = parse_identity(identity)?;
        let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
        let identity = match (&arguments.key, &arguments.secret_file) {
            (Some(key), _) => with_private_key(&reference, key, passphrase.as_deref())?,
            (None, Some(file)) => with_secret(&reference, &read_secret_file(file)?),
            (None, None) => {
                let secret = prompt_secret(&format!("Secret key of {reference}"))
                    .map_err(|error| error.or_hint("use `--key FILE` or `--secret-file FILE`"))?;
                with_secret(&reference, secret.as_bytes())
            }
        };
        Ok(Self::Identity(identity))
    }
}

/// Identity of an `AUTHENTICATE` entry of a batch file.
pub(super) fn batch_identity(identity: &BatchIdentity) -> Result<AdminIdentity, CliError> {
    match &identity.key {
        BatchKey::Secret(secret) => Ok(with_secret(&identity.reference, secret.as_bytes())),
        BatchKey::PrivateKeyFile { path, passphrase } => {
            let passphrase = passphrase.as_ref().map(|text| text.as_bytes());
            with_private_key(&identity.reference, Path::new(path), passphrase)
        }
    }
}

fn parse_identity(text: &str) -> Result<ValueReference<'static>, CliError> {
    let reference = ValueReference::parse(text);
    if reference.index == 0 || reference.handle.is_empty() {
        let text = quote_input(text.as_bytes());
        return Err(CliError::new(format!("invalid identity `{text}`: expected INDEX:HANDLE"))
            .with_hint("for example `--auth 300:0.NA/10.5555`"));
    }
    Ok(reference.into_owned())
}

fn with_private_key(
    reference: &ValueReference<'_>,
    file: &Path,
    passphrase: Option<&[u8]>,
) -> Result<AdminIdentity, CliError> {
    let key = read_private_key_file(file, passphrase)?;
    AdminIdentity::with_private_key(reference.index, &handle_text(reference), &key)
        .map_err(|error| CliError::new(format!("cannot use the private key `{}`: {error}", file.display())))
}

fn with_secret(reference: &ValueReference<'_>, secret: &[u8]) -> AdminIdentity {
    AdminIdentity::with_secret_key(reference.index, &handle_text(reference), secret)
}

fn handle_text(reference: &ValueReference<'_>) -> String {
    String::from_utf8_lossy(&reference.handle).into_owned()
}
