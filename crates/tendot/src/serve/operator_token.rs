//! Operator token: read from its file, or created at the first start; read again on SIGHUP.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;

use crate::CliError;
use crate::atomic_file::AtomicFile;

/// File of the operator token in the data directory.
pub(super) const OPERATOR_TOKEN_FILE: &str = "operator.token";

/// Reads the operator token, or creates it with mode 0600.
pub(super) fn read_or_create(path: &Path) -> Result<String, CliError> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create(path)?;
            read(path)
        }
        _ => read(path),
    }
}

/// Reads the operator token; only its owner and group may have access to the file.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::io(format!("cannot use `{}`", path.display()), &error);
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let path = path.display();
        return Err(CliError::new(format!("operator token `{path}` is world-accessible (mode {mode:o})"))
            .with_hint(format!(
                "run `chmod 600 {path}`; if others may have read it, delete it to get a new one"
            )));
    }
    let mut token = String::new();
    file.take(4_096).read_to_string(&mut token).map_err(failed)?;
    let token = token.trim();
    if token.len() < 16 {
        return Err(CliError::new(format!("no valid token in `{}`", path.display()))
            .with_hint("delete the file to have a new token created at the next start"));
    }
    Ok(token.to_owned())
}

/// Creates the token file atomically, unless another process creates it first.
fn create(path: &Path) -> Result<(), CliError> {
    write_new_token(path)?.commit_new()
}

/// Replaces the operator token in the data directory by a new one; fails if there is none. Returns its file.
pub(crate) fn rotate(data_dir: &Path) -> Result<PathBuf, CliError> {
    let path = data_dir.join(OPERATOR_TOKEN_FILE);
    if !path.exists() {
        return Err(CliError::new(format!("no operator token `{}`", path.display()))
            .with_hint("set the data directory of the server with `--data DIR`"));
    }
    write_new_token(&path)?.commit()?;
    Ok(path)
}

/// New token in a file of mode 0600 that is not in place yet.
fn write_new_token(path: &Path) -> Result<AtomicFile, CliError> {
    let mut random = [0; 32];
    rand::fill(&mut random).map_err(|_| CliError::new("system random number generator failed"))?;
    let mut file = AtomicFile::create(path)?;
    writeln!(file.file(), "{}", BASE64URL_NOPAD.encode(&random))
        .map_err(|error| CliError::io(format!("cannot create `{}`", path.display()), &error))?;
    Ok(file)
}
