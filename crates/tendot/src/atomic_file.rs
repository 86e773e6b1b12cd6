//! Atomic file replacement: write beside the target, then rename.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::CliError;

/// File written beside its target and renamed over it; removed if dropped before `commit`.
pub(crate) struct AtomicFile {
    file: File,
    path: PathBuf,
    /// Path to rename to; none if the target is not a regular file, such as a pipe, and is written directly.
    target: Option<PathBuf>,
}

impl AtomicFile {
    pub(crate) fn create(target: &Path) -> Result<Self, CliError> {
        let failed = |path: &Path, error| CliError::io(format!("cannot write `{}`", path.display()), &error);
        if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(target).map_err(|error| failed(target, error))?;
            return Ok(Self { file, path: target.into(), target: None });
        }
        // Replaces the file that a symbolic link points to, not the link.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        // May remain from a crashed process with the same process id.
        let _ = std::fs::remove_file(&path);
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        // Records contain secrets.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| failed(&path, error))?;
        Ok(Self { file, path, target: Some(target) })
    }

    /// Temporary path until `commit`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// True if the file is renamed over its target, and can be read before that.
    pub(crate) const fn is_regular_file(&self) -> bool {
        self.target.is_some()
    }

    /// Renames the file over its target and syncs the directory.
    pub(crate) fn commit(mut self) -> Result<(), CliError> {
        let Some(target) = self.target.clone() else { return Ok(()) };
        let failed = |error| CliError::io(format!("cannot write `{}`", target.display()), &error);
        self.file.sync_all().map_err(failed)?;
        std::fs::rename(&self.path, &target).map_err(failed)?;
        self.target = None;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = File::open(dir.unwrap_or_else(|| Path::new(".")));
        dir.and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.target.is_some() {
            // An error cannot be reported from `drop`.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
