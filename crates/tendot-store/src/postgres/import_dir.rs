//! Temporary directory of an import: removed when the import ends, or by the next one if it was killed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::directory_lock::DirectoryLock;
use crate::durable_dir;
use crate::import::import_buffer::ImportBuffer;

/// Prefix of the directories' names.
const PREFIX: &str = "tendot-import-";

/// Creates a buffer in the system's temporary directory, and removes directories left by killed imports.
pub(crate) fn create_buffer() -> io::Result<ImportBuffer> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, index) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let parent = std::env::temp_dir();
    let path = parent.join(format!("{PREFIX}{process}-{index}"));
    let mut buffer = ImportBuffer::new(path.clone())?;
    buffer.lock = Some(DirectoryLock::acquire(&path).map_err(io::Error::other)?);
    remove_abandoned(&parent, &path)?;
    Ok(buffer)
}

#[cfg(unix)]
fn remove_abandoned(parent: &Path, own: &Path) -> io::Result<()> {
    let is_import =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX)).is_some();
    let others = std::fs::read_dir(parent)?.flatten().map(|entry| entry.path());
    for other in others.filter(is_import) {
        if is_abandoned(&other, own) && DirectoryLock::acquire(&other).is_ok() {
            // On failure the next import tries again.
            let _ = durable_dir::remove_dir(&other);
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn remove_abandoned(_parent: &Path, _own: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether a directory is abandoned: it has our owner (others may create anything there), and is so old that a running import
/// would have locked it.
#[cfg(unix)]
fn is_abandoned(directory: &Path, own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = |path: &Path| std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir);
    let Some((other, own)) = metadata(directory).zip(metadata(own)) else { return false };
    let age = other.modified().ok().and_then(|modified| modified.elapsed().ok());
    other.uid() == own.uid() && age.is_some_and(|age| age.as_secs() > 60)
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A locked or recent directory is in use; an old and unlocked one is abandoned.
    #[test]
    fn removes_abandoned_directories() {
        let create = |name: &str| {
            let path = std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()));
            durable_dir::recreate_private_dir(&path).unwrap();
            path
        };
        let age = |path: &Path| {
            let old = SystemTime::now() - Duration::from_secs(100);
            std::fs::File::open(path).unwrap().set_modified(old).unwrap();
        };
        let (abandoned, locked, recent) = (create("abandoned"), create("locked"), create("recent"));
        std::fs::write(abandoned.join("run-0"), b"something").unwrap();
        let lock = DirectoryLock::acquire(&locked).unwrap();
        [&abandoned, &locked].into_iter().for_each(|path| age(path));
        let mut buffer = create_buffer().unwrap();
        assert!(!abandoned.exists() && locked.exists() && recent.exists());
        // Its own directory is removed on drop.
        buffer.max_buffer_bytes = 1;
        buffer.add("10.1/1", &[]).unwrap();
        let own = buffer.dir().to_owned();
        assert!(own.join("run-0").exists());
        drop(buffer);
        assert!(!own.exists());
        drop(lock);
        [locked, recent].iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
    }
}
