//! Operator token: read from its file, or created at the first start.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;

use crate::CliError;

/// Reads the operator token, or creates it with mode 0600.
pub(super) fn read_or_create(path: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::io(format!("cannot use `{}`", path.display()), &error);
    let mut token = String::new();
    match OpenOptions::new().read(true).open(path) {
        Ok(file) => file.take(4_096).read_to_string(&mut token).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return if create(path)? { read_or_create(path) } else { Err(failed(error)) };
        }
        Err(error) => return Err(failed(error)),
    };
    let token = token.trim();
    if token.len() < 16 {
        return Err(CliError::new(format!("no valid token in `{}`", path.display()))
            .with_hint("delete the file to have a new token created at the next start"));
    }
    Ok(token.to_owned())
}

/// Creates the token file atomically, unless another process creates it first; returns whether the file exists.
fn create(path: &Path) -> Result<bool, CliError> {
    let failed = |error| CliError::io(format!("cannot create `{}`", path.display()), &error);
    let mut random = [0; 32];
    rand::fill(&mut random).map_err(|_| CliError::new("system random number generator failed"))?;
    let draft = path.with_extension(format!("token.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft).map_err(failed)?;
    let written = writeln!(file, "{}", BASE64URL_NOPAD.encode(&random)).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    let removed = std::fs::remove_file(&draft);
    linked.and(removed).map_err(failed)?;
    Ok(path.exists())
}
