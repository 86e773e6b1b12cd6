//! Creates, syncs and removes directories durably.

use std::fs::{DirBuilder, File};
use std::io;
use std::path::Path;

/// Creates a directory and its parents if missing, durably.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), create_dir)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        created => created?,
    }
    sync_dir(parent.unwrap_or(Path::new(".")))
}

/// Replaces a directory by an empty private one (mode 0700): records contain secrets.
pub(crate) fn recreate_private_dir(path: &Path) -> io::Result<()> {
    remove_dir(path)?;
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes a directory tree if it exists.
pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs a directory, which makes its entries durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates a private file (mode 0600), like those of LMDB.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
