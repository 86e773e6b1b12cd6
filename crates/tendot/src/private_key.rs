//! Private keys of handle identities: Handle.Net key files and PEM.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use data_encoding::BASE64;
use tendot_proto::Budget;
use tendot_proto::auth::{KeyFileError, PrivateKey};
use tendot_proto::crypto::AwsLcProvider;

use crate::CliError;
use crate::terminal::{eprint_warning, prompt_secret};

/// Maximum size of a file with a key, secret or certificate.
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;

/// Passphrase of an encrypted key file.
pub(crate) enum Passphrase<'a> {
    /// Asked for on the terminal, if the file is encrypted.
    Prompt,
    /// Known.
    Given(&'a [u8]),
}

/// Reads a private key: a key file of Handle.Net (`admpriv.bin`), encrypted or not, or an RSA key in PEM (PKCS #1 or PKCS #8).
pub(crate) fn load_private_key(path: &Path, passphrase: &Passphrase<'_>) -> Result<PrivateKey, CliError> {
    let bytes = read_key_file(path)?;
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let path = path.display();
        eprint_warning(&format!(
            "`{path}` is accessible by other users (mode {mode:o}); run `chmod 600 {path}`"
        ));
    }
    let unusable = |error: &dyn std::fmt::Display| {
        CliError::new(format!("cannot use the private key `{}`: {error}", path.display()))
    };
    if bytes.trim_ascii_start().starts_with(b"-----BEGIN ") {
        return from_pem(&bytes).map_err(|reason| unusable(&reason));
    }
    let decode = |passphrase: Option<&[u8]>| {
        PrivateKey::from_file_bytes(&bytes, passphrase, &AwsLcProvider, &mut { Budget::PER_REQUEST })
    };
    let decoded = match passphrase {
        Passphrase::Given(passphrase) => decode(Some(passphrase)),
        Passphrase::Prompt => match decode(None) {
            Err(KeyFileError::PassphraseRequired) => {
                let typed = prompt_secret(&format!("Passphrase of {}", path.display()))
                    .map_err(|error| error.or_hint("read it from a file with `--passphrase-file FILE`"))?;
                decode(Some(typed.as_bytes()))
            }
            decoded => decoded,
        },
    };
    decoded.map_err(|error| unusable(&error))
}

/// Reads a secret or passphrase from a file, without the line end.
pub(crate) fn read_secret_file(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut secret = read_key_file(path)?;
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

/// Reads a file of limited size.
pub(crate) fn read_key_file(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::io(format!("cannot read `{}`", path.display()), &error);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_KEY_FILE_BYTES {
        return Err(CliError::new(format!("`{}` exceeds {MAX_KEY_FILE_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

/// RSA private key in PEM (RFC 7468): PKCS #1 or PKCS #8, not encrypted.
fn from_pem(bytes: &[u8]) -> Result<PrivateKey, String> {
    let text = str::from_utf8(bytes).map_err(|_| "invalid PEM: not text")?;
    let begin = text.trim_start().strip_prefix("-----BEGIN ").ok_or("invalid PEM")?;
    let (label, body) = begin.split_once("-----").ok_or("invalid PEM")?;
    let (body, _) = body.split_once("-----END ").ok_or("invalid PEM: missing end")?;
    // Headers exist only in encrypted keys of the old OpenSSL format.
    if label == "ENCRYPTED PRIVATE KEY" || body.contains("ENCRYPTED") {
        return Err("encrypted PEM is not supported; decrypt it with `openssl rsa -in FILE -out NEW`".into());
    }
    let body: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let der = BASE64.decode(body.as_bytes()).map_err(|_| "invalid PEM: not Base64")?;
    let rsa = match label {
        "RSA PRIVATE KEY" => &der[..],
        "PRIVATE KEY" => pkcs8_rsa_key(&der).ok_or("not an RSA key")?,
        label => return Err(format!("unsupported PEM type `{label}`; expected an RSA private key")),
    };
    PrivateKey::from_der(rsa).map_err(|error| format!("invalid RSA key: {error}"))
}

/// `RSAPrivateKey` in a `PrivateKeyInfo` (RFC 5208, section 5).
fn pkcs8_rsa_key(der: &[u8]) -> Option<&[u8]> {
    /// Algorithm identifier `rsaEncryption` with NULL parameters (RFC 8017, appendix C).
    const RSA_ENCRYPTION: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let (info, _) = der_element(der, 0x30)?;
    let (_version, rest) = der_element(info, 0x02)?;
    let (algorithm, rest) = der_element(rest, 0x30)?;
    let (key, _) = der_element(rest, 0x04)?;
    (algorithm == RSA_ENCRYPTION).then_some(key)
}

/// Content of the first element, which must have this tag, and the bytes after it.
fn der_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => {
            let (bytes, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn reads_handle_net_and_pem_keys() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let openssl = |arguments: &[&str]| {
            let status = Command::new("openssl").args(arguments).current_dir(dir.path()).output().unwrap();
            assert!(status.status.success(), "{arguments:?}: {status:?}");
        };
        openssl(&["genrsa", "-traditional", "-out", "pkcs1.pem", "2048"]);
        openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", "pkcs1.pem", "-out", "pkcs8.pem"]);
        openssl(&["pkcs8", "-topk8", "-passout", "pass:x", "-in", "pkcs1.pem", "-out", "encrypted.pem"]);
        openssl(&["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "ec.pem"]);
        let load = |name: &str| load_private_key(&file(name), &Passphrase::Given(b"wrong"));
        let pkcs1 = load("pkcs1.pem").unwrap();
        assert_eq!(load("pkcs8.pem").unwrap().to_der(), pkcs1.to_der());
        fs::write(file("key.bin"), pkcs1.to_file_bytes()).unwrap();
        assert_eq!(load("key.bin").unwrap().to_der(), pkcs1.to_der());
        for (name, content) in [("cut.pem", &b"-----BEGIN PRIVATE KEY-----\nAAAA"[..]), ("none.bin", b"x")] {
            fs::write(file(name), content).unwrap();
        }
        for name in ["encrypted.pem", "ec.pem", "cut.pem", "none.bin", "missing"] {
            assert!(load(name).is_err(), "{name}");
        }
    }

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
