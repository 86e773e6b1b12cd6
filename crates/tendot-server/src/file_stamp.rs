//! Changes of a file: modification time, inode and size.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// Interval between checks of files that are reloaded when they change.
pub(crate) const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Modification time, inode and size of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileStamp {
    modified: (i64, i64),
    inode: u64,
    size: u64,
}

impl FileStamp {
    /// Stamp of a file; `None` if it cannot be read.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        Some(Self { modified, inode: found.ino(), size: found.len() })
    }
}
