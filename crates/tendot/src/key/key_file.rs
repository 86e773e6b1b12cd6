//! Keys in files: PEM, JWK and Handle.Net's format.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use tendot_proto::Budget;
use tendot_proto::auth::{KeyFileError, PrivateKey};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::record::PublicKey;

use super::pem;
use crate::CliError;
use crate::atomic_file::AtomicFile;
use crate::terminal::{StdoutWriter, eprint_warning, prompt_secret};

/// Maximum size of a file with a key, secret or certificate.
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;

/// Format of a key file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeyFormat {
    /// PEM: PKCS #8 or SubjectPublicKeyInfo, as OpenSSL writes
    Pem,
    /// JSON Web Key (RFC 7517)
    Jwk,
    /// binary file of Handle.Net, such as admpriv.bin or admpub.bin
    HandleNet,
}

impl KeyFormat {
    /// Name of the format, as in arguments.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Format by the extension of a file name; PEM if it says nothing.
    pub(super) fn of_path(path: Option<&Path>) -> Self {
        match path.and_then(Path::extension).and_then(|extension| extension.to_str()) {
            Some("bin") => Self::HandleNet,
            Some("json" | "jwk") => Self::Jwk,
            _ => Self::Pem,
        }
    }
}

/// Key read from a file.
pub(crate) enum KeyFile {
    Private(PrivateKey),
    Public(PublicKey<'static>),
}

impl KeyFile {
    /// Public key: that of the file, or that of the private key in it.
    pub(crate) fn public_key(&self) -> Option<PublicKey<'static>> {
        match self {
            Self::Private(key) => key.public_key(),
            Self::Public(key) => Some(key.clone()),
        }
    }

    /// Decodes a key in any format.
    pub(super) fn decode(
        bytes: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<(Self, KeyFormat), KeyDecodeError> {
        if let Some(text) = str::from_utf8(bytes).ok().filter(|text| text.contains("-----BEGIN ")) {
            return Ok((Self::decode_pem(text)?, KeyFormat::Pem));
        }
        if bytes.trim_ascii_start().starts_with(b"{") {
            let json: serde_json::Value =
                serde_json::from_slice(bytes).map_err(|error| KeyDecodeError::new(&error))?;
            let key = match json.get("d") {
                Some(_) => PrivateKey::from_jwk(&json).map(Self::Private),
                None => PublicKey::from_jwk(&json).map(Self::Public),
            };
            return Ok((key.map_err(|error| KeyDecodeError::new(&error))?, KeyFormat::Jwk));
        }
        // A public key starts with the length of its type name, which is larger than any encryption type.
        if let Ok(key) = PublicKey::from_bytes(bytes) {
            return Ok((Self::Public(key.into_owned()), KeyFormat::HandleNet));
        }
        let key =
            PrivateKey::from_file_bytes(bytes, passphrase, &AwsLcProvider, &mut { Budget::PER_REQUEST });
        key.map(|key| (Self::Private(key), KeyFormat::HandleNet)).map_err(|error| match error {
            KeyFileError::PassphraseRequired => KeyDecodeError {
                needs_passphrase: true,
                hint: Some("give the passphrase with `--passphrase-file FILE`"),
                ..KeyDecodeError::new(&error)
            },
            KeyFileError::Malformed(_) => {
                KeyDecodeError::new(&format_args!("neither PEM, JWK nor a key file of Handle.Net: {error}"))
            }
            error => KeyDecodeError::new(&error),
        })
    }

    fn decode_pem(text: &str) -> Result<Self, KeyDecodeError> {
        let (label, der) = pem::decode(text)
            .ok_or_else(|| KeyDecodeError { hint: DECRYPT_HINT, ..KeyDecodeError::new(&"invalid PEM") })?;
        let key = match label {
            "PRIVATE KEY" => PrivateKey::from_pkcs8_der(&der).map(Self::Private),
            "RSA PRIVATE KEY" => PrivateKey::from_der(&der).map(Self::Private),
            "PUBLIC KEY" => PublicKey::from_spki_der(&der).map(Self::Public),
            "RSA PUBLIC KEY" => PublicKey::from_pkcs1_der(&der).map(Self::Public),
            _ => {
                let message = format_args!("PEM block `{label}` is not an unencrypted RSA key");
                return Err(KeyDecodeError { hint: DECRYPT_HINT, ..KeyDecodeError::new(&message) });
            }
        };
        key.map_err(|error| KeyDecodeError::new(&error))
    }

    /// Encodes the key; a private key in Handle.Net's format can be encrypted.
    pub(super) fn encode(&self, format: KeyFormat, passphrase: Option<&[u8]>) -> Result<Vec<u8>, CliError> {
        let unsupported = |what: &str| CliError::new(format!("this key cannot be written as {what}"));
        Ok(match (self, format) {
            (Self::Private(key), KeyFormat::HandleNet) => match passphrase {
                None => key.to_file_bytes().to_vec(),
                Some(passphrase) => key
                    .to_encrypted_file_bytes(passphrase, &AwsLcProvider, &mut SystemRandom, &mut {
                        Budget::PER_REQUEST
                    })
                    .map_err(|error| CliError::new(error.to_string()))?,
            },
            _ if passphrase.is_some() => {
                return Err(CliError::new("only private keys in the format `handle-net` can be encrypted")
                    .with_hint("encrypt PEM with `openssl pkcs8 -topk8`"));
            }
            (Self::Private(key), KeyFormat::Pem) => {
                let der = key.to_pkcs8_der().ok_or_else(|| unsupported("PEM"))?;
                pem::encode("PRIVATE KEY", &der).into_bytes()
            }
            (Self::Private(key), KeyFormat::Jwk) => {
                let json = key.to_jwk().ok_or_else(|| unsupported("JWK"))?;
                format!("{}\n", *json).into_bytes()
            }
            (Self::Public(key), KeyFormat::HandleNet) => key.to_bytes(),
            (Self::Public(key), KeyFormat::Pem) => {
                let der = key.to_spki_der().ok_or_else(|| unsupported("PEM"))?;
                pem::encode("PUBLIC KEY", &der).into_bytes()
            }
            (Self::Public(key), KeyFormat::Jwk) => {
                let jwk = key.jwk().ok_or_else(|| unsupported("JWK"))?;
                let json = serde_json::to_string(&jwk).map_err(|error| CliError::new(error.to_string()))?;
                format!("{json}\n").into_bytes()
            }
        })
    }
}

const DECRYPT_HINT: Option<&str> = Some(
    "decrypt it with `openssl pkey -in FILE -out KEY.pem`; elliptic curves are not used in the Handle System",
);

/// Error of decoding a key.
pub(super) struct KeyDecodeError {
    message: String,
    hint: Option<&'static str>,
    /// Whether the file is encrypted, and no passphrase was given.
    needs_passphrase: bool,
}

impl KeyDecodeError {
    fn new(error: &dyn std::fmt::Display) -> Self {
        Self { message: error.to_string(), hint: None, needs_passphrase: false }
    }
}

/// Reads a key in any format, and its format; asks for the passphrase of an encrypted key if it is not given.
pub(super) fn read_key_file(
    path: &Path,
    passphrase: Option<&[u8]>,
) -> Result<(KeyFile, KeyFormat), CliError> {
    decode_key(path, &read_small_file(path)?, passphrase)
}

fn decode_key(
    path: &Path,
    bytes: &[u8],
    passphrase: Option<&[u8]>,
) -> Result<(KeyFile, KeyFormat), CliError> {
    match KeyFile::decode(bytes, passphrase) {
        Err(error) if error.needs_passphrase => {
            // Without a terminal, the hint says how to give it.
            let Ok(typed) = prompt_secret(&format!("Passphrase of {}", path.display())) else {
                return Err(error.for_file(path));
            };
            KeyFile::decode(bytes, Some(typed.as_bytes())).map_err(|error| error.for_file(path))
        }
        decoded => decoded.map_err(|error| error.for_file(path)),
    }
}

impl KeyDecodeError {
    fn for_file(self, path: &Path) -> CliError {
        let error = CliError::new(format!("invalid key `{}`: {}", path.display(), self.message));
        self.hint.into_iter().fold(error, CliError::with_hint)
    }
}

/// Reads the private key of a file in any format; warns if other users can read it.
pub(crate) fn read_private_key_file(path: &Path, passphrase: Option<&[u8]>) -> Result<PrivateKey, CliError> {
    let KeyFile::Private(key) = read_key_file(path, passphrase)?.0 else {
        return Err(not_private(path));
    };
    if let Some(mode) = shared_mode(path) {
        eprint_warning(&format!("`{}` is readable by other users (mode {mode:o})", path.display()));
    }
    Ok(key)
}

/// Reads an unencrypted private key for a server; its file must not be accessible by others.
pub(crate) fn read_server_private_key_file(path: &Path) -> Result<PrivateKey, CliError> {
    if let Some(mode) = shared_mode(path) {
        let message = format!("`{}` is readable by other users (mode {mode:o})", path.display());
        return Err(CliError::new(message).with_hint(format!("run `chmod 600 {}`", path.display())));
    }
    match KeyFile::decode(&read_small_file(path)?, None) {
        Ok((KeyFile::Private(key), _)) => Ok(key),
        Ok((KeyFile::Public(_), _)) => Err(not_private(path)),
        // A server starts without anyone to ask.
        Err(error) if error.needs_passphrase => Err(KeyDecodeError {
            hint: Some("use an unencrypted key with mode 0600; `tendot key convert` decrypts it"),
            ..error
        }
        .for_file(path)),
        Err(error) => Err(error.for_file(path)),
    }
}

fn not_private(path: &Path) -> CliError {
    CliError::new(format!("`{}` has a public key; a private key is required", path.display()))
}

/// Mode of a file that other users can read or write.
fn shared_mode(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    (mode & 0o077 != 0).then_some(mode)
}

/// Reads the public key of a file in any format: a public key, or that of a private key.
pub(crate) fn read_public_key_file(path: &Path) -> Result<PublicKey<'static>, CliError> {
    decode_public_key(path, &read_small_file(path)?)
}

/// Public key in the content of a file.
pub(super) fn decode_public_key(path: &Path, bytes: &[u8]) -> Result<PublicKey<'static>, CliError> {
    let unsupported = || CliError::new(format!("`{}` has no public key", path.display()));
    decode_key(path, bytes, None)?.0.public_key().ok_or_else(unsupported)
}

/// Reads a passphrase; a final line end is not part of it.
pub(crate) fn read_passphrase(file: Option<&Path>) -> Result<Option<Vec<u8>>, CliError> {
    file.map(read_secret_file).transpose()
}

/// Reads a secret or passphrase from a file, without the final line end.
pub(crate) fn read_secret_file(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut secret = read_small_file(path)?;
    if secret.ends_with(b"\n") {
        secret.pop();
    }
    if secret.ends_with(b"\r") {
        secret.pop();
    }
    if secret.is_empty() {
        return Err(CliError::new(format!("`{}` is empty", path.display())));
    }
    Ok(secret)
}

/// Reads a file with a key, secret or certificate; its size is limited.
pub(crate) fn read_small_file(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::io(format!("cannot read `{}`", path.display()), &error);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_KEY_FILE_BYTES {
        return Err(CliError::new(format!("`{}` exceeds {MAX_KEY_FILE_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

/// Fails if a key would overwrite a file.
pub(super) fn check_new_file(path: Option<&Path>, force: bool) -> Result<(), CliError> {
    match path.filter(|path| !force && path.metadata().is_ok_and(|metadata| metadata.is_file())) {
        Some(path) => Err(CliError::new(format!("`{}` exists", path.display()))
            .with_hint("use another file, or `--force` to overwrite it")),
        None => Ok(()),
    }
}

/// Writes a key to a file (mode 0600; a public key 0644), or to standard output.
pub(super) fn write_key_file(
    path: Option<&Path>,
    key: &KeyFile,
    bytes: &[u8],
    force: bool,
) -> Result<(), CliError> {
    let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
        let mut output = StdoutWriter::new();
        output.write_bytes(bytes)?;
        return output.flush();
    };
    check_new_file(Some(path), force)?;
    let mut file = AtomicFile::create(path)?;
    let mut written = file.file().write_all(bytes);
    if file.is_regular_file() && matches!(key, KeyFile::Public(_)) {
        let readable = fs::Permissions::from_mode(0o644);
        written = written.and_then(|()| file.file().set_permissions(readable));
    }
    written.map_err(|error| CliError::io(format!("cannot write `{}`", path.display()), &error))?;
    file.commit()
}

/// Time as Unix time in seconds.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Expiration after this number of days.
pub(crate) fn expires_at(issued_at: u64, days: u32) -> u64 {
    issued_at.saturating_add(u64::from(days) * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_lose_their_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        for (content, expected) in
            [("a b\n", Some("a b")), ("a\r\n", Some("a")), ("a", Some("a")), ("\n", None)]
        {
            fs::write(&file, content).unwrap();
            assert_eq!(read_secret_file(&file).ok().as_deref(), expected.map(str::as_bytes), "{content:?}");
        }
    }
}
