//! Atomic file replacement: write beside the target, then rename.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempPath};

use crate::CliError;

/// Suffix of temporary files.
const SUFFIX: &str = ".part";

/// Age from which on a temporary file that is not locked was left by a killed process.
const MIN_LEFT_OVER_AGE: Duration = Duration::from_secs(60);

/// File written beside its target (mode 0600) and renamed over it; removed if dropped before `commit`.
pub(crate) struct AtomicFile {
    file: File,
    /// Path that the user gave.
    target: PathBuf,
    /// Temporary file; none if the target is not a regular file, such as a pipe, and is written directly.
    temporary: Option<TempPath>,
}

impl AtomicFile {
    pub(crate) fn create(target: &Path) -> Result<Self, CliError> {
        let failed = |error| write_error(target, &error);
        if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(target).map_err(failed)?;
            return Ok(Self { file, target: target.into(), temporary: None });
        }
        // Replaces the file that a symbolic link points to, not the link.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let mut prefix = OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        remove_left_over(dir_of(&target), &prefix);
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(SUFFIX).tempfile_in(dir_of(&target));
        let (file, temporary) = temporary.map(NamedTempFile::into_parts).map_err(failed)?;
        // Shows that the file is in use; where locks do not work, its age does.
        let _ = file.try_lock();
        Ok(Self { file, target, temporary: Some(temporary) })
    }

    /// Temporary path until `commit`.
    pub(crate) fn path(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.target)
    }

    pub(crate) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// True if the file is renamed over its target, and can be read before that.
    pub(crate) const fn is_regular_file(&self) -> bool {
        self.temporary.is_some()
    }

    /// Renames the file over its target and syncs the directory.
    pub(crate) fn commit(self) -> Result<(), CliError> {
        self.rename(|temporary, target| temporary.persist(target).map_err(io::Error::from))
    }

    /// Renames the file to its target unless that exists, and syncs the directory.
    pub(crate) fn commit_new(self) -> Result<(), CliError> {
        self.rename(|temporary, target| match temporary.persist_noclobber(target) {
            Err(error) if error.error.kind() != ErrorKind::AlreadyExists => Err(error.error),
            _ => Ok(()),
        })
    }

    fn rename(self, rename: impl FnOnce(TempPath, &Path) -> io::Result<()>) -> Result<(), CliError> {
        let Self { file, target, temporary } = self;
        let Some(temporary) = temporary else { return Ok(()) };
        file.sync_all()
            .and_then(|()| rename(temporary, &target))
            .and_then(|()| File::open(dir_of(&target))?.sync_all())
            .map_err(|error| write_error(&target, &error))
    }
}

/// Removes temporary files for the same target that killed processes have left.
fn remove_left_over(dir: &Path, prefix: &OsStr) {
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let (name, prefix) = (name.as_encoded_bytes(), prefix.as_encoded_bytes());
        let random = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
        if !random.is_some_and(|random| random.len() == 6 && random.iter().all(u8::is_ascii_alphanumeric)) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        let changed = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_old = changed.and_then(|time| time.elapsed().ok()).is_some_and(|age| age >= MIN_LEFT_OVER_AGE);
        if is_old && file.try_lock().is_ok() {
            // If this fails, the file only takes space.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn dir_of(target: &Path) -> &Path {
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or_else(|| Path::new("."))
}

fn write_error(path: &Path, error: &io::Error) -> CliError {
    CliError::io(format!("cannot write `{}`", path.display()), error)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn write(target: &Path, text: &str) -> AtomicFile {
        let mut file = AtomicFile::create(target).unwrap();
        file.file().write_all(text.as_bytes()).unwrap();
        file
    }

    /// What a killed process has left is removed; what another one is writing, and other files, are not.
    #[test]
    fn removes_left_over_files() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let create = |name: &str| {
            let file = File::create_new(dir.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * MIN_LEFT_OVER_AGE).unwrap();
            file
        };
        let in_use = create(".copy2Bb2Bb.part");
        in_use.lock().unwrap();
        for name in [".copy1Aa1Aa.part", ".copy-too1Aa1Aa.part", "copy1Aa1Aa.part", ".copy1Aa1Aa"] {
            drop(create(name));
        }
        drop(File::create_new(dir.path().join(".copy3Cc3Cc.part")).unwrap());
        write(&target, "new").commit().unwrap();
        let mut names: Vec<_> = dir
            .path()
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            ".copy-too1Aa1Aa.part",
            ".copy1Aa1Aa",
            ".copy2Bb2Bb.part",
            ".copy3Cc3Cc.part",
            "copy",
            "copy1Aa1Aa.part",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn replaces_on_commit_only() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("a"), dir.path().join("link"));
        symlink(&target, &link).unwrap();
        write(&target, "one").commit().unwrap();
        drop(write(&target, "dropped"));
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "one");
        write(&link, "two").commit().unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "two");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        write(&target, "three").commit_new().unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "two", "exists already");
        assert_eq!(dir.path().read_dir().unwrap().count(), 2, "no temporary file is left");
    }
}
