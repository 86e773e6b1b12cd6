//! Folders and files beside the engine's own, and when they are durable.

use std::fs::{DirBuilder, File};
use std::io;
use std::path::Path;

/// Makes a folder and those above it, if they are not there, and makes that durable.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.map_or(Ok(()), create_dir)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync_dir(above.unwrap_or(Path::new(".")))
}

/// An empty folder that only its owner can look into, whatever was there: records have secrets.
pub(crate) fn recreate_private_dir(path: &Path) -> io::Result<()> {
    remove_dir(path)?;
    let mut folder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes durable which files are in a folder.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A new file that only its owner can read, as LMDB makes its own.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
