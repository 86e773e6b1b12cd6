//! Collects the records of an import in memory and spills them to sorted runs on disk when full.

use std::collections::BTreeSet;
use std::io;
#[cfg(all(feature = "postgres", unix))]
use std::path::Path;
use std::path::PathBuf;
#[cfg(feature = "postgres")]
use std::sync::atomic::{AtomicU32, Ordering};

use tendot_proto::HandleValue;

use super::external_sort::SortedRuns;
use super::merge::RunMerge;
use super::sort_buffer::SortBuffer;
use super::{ImportBatch, ImportError, push_record};
use crate::embedded::lmdb::directory_lock::DirectoryLock;
#[cfg(all(feature = "postgres", unix))]
use crate::embedded::lmdb::durable_dir;
use crate::{NameKey, fail_point};

/// Default size of the sort buffer.
const DEFAULT_BUFFER_BYTES: usize = 32 << 20;

/// Prefix of the temporary directories of imports into PostgreSQL.
#[cfg(feature = "postgres")]
const TEMP_DIR_PREFIX: &str = "tendot-import-";

/// Whether a directory is abandoned: it has our owner (others may create anything there), and is so old that a running import
/// would have locked it.
#[cfg(all(feature = "postgres", unix))]
fn is_abandoned(directory: &Path, own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = |path: &Path| std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir);
    let Some((other, own)) = metadata(directory).zip(metadata(own)) else { return false };
    let age = other.modified().ok().and_then(|modified| modified.elapsed().ok());
    other.uid() == own.uid() && age.is_some_and(|age| age.as_secs() > 60)
}

/// Records added to an import so far, in memory and in sorted runs.
#[derive(Debug)]
pub(crate) struct ImportBuffer {
    sort_buffer: SortBuffer,
    /// Size of the sort buffer at which it is spilled to disk.
    pub(crate) max_buffer_bytes: usize,
    superseded: u64,
    pub(crate) homed: BTreeSet<NameKey>,
    /// Dropped before the lock.
    runs: SortedRuns,
    _lock: Option<DirectoryLock>,
}

impl ImportBuffer {
    /// Creates an empty buffer and its directory, which is removed on drop.
    pub(crate) fn new(directory: PathBuf) -> io::Result<Self> {
        let runs = SortedRuns::new(directory)?;
        let (sort_buffer, homed) = (SortBuffer::new(), BTreeSet::new());
        Ok(Self {
            sort_buffer,
            max_buffer_bytes: DEFAULT_BUFFER_BYTES,
            superseded: 0,
            homed,
            runs,
            _lock: None,
        })
    }

    /// Creates a buffer in the system's temporary directory, and removes directories left by killed imports.
    #[cfg(feature = "postgres")]
    pub(crate) fn in_temp_dir() -> io::Result<Self> {
        static NEXT_TEMP_DIR: AtomicU32 = AtomicU32::new(0);
        let (process, index) = (std::process::id(), NEXT_TEMP_DIR.fetch_add(1, Ordering::Relaxed));
        let parent = std::env::temp_dir();
        let path = parent.join(format!("{TEMP_DIR_PREFIX}{process}-{index}"));
        let mut buffer = Self::new(path.clone())?;
        buffer._lock = Some(DirectoryLock::acquire(&path).map_err(io::Error::other)?);
        #[cfg(unix)]
        for other in std::fs::read_dir(&parent)?.flatten().map(|entry| entry.path()) {
            let is_ours =
                other.file_name().and_then(|name| name.to_str()?.strip_prefix(TEMP_DIR_PREFIX)).is_some();
            if is_ours && is_abandoned(&other, &path) && DirectoryLock::acquire(&other).is_ok() {
                // On failure the next import tries again.
                let _ = durable_dir::remove_dir(&other);
            }
        }
        Ok(buffer)
    }

    pub(crate) fn add(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        push_record(&mut self.sort_buffer, name, values)?;
        self.spill_if_full()
    }

    pub(crate) fn add_batch(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        self.sort_buffer.append(&batch.0);
        self.spill_if_full()
    }

    fn spill_if_full(&mut self) -> Result<(), ImportError> {
        if self.sort_buffer.memory_size() >= self.max_buffer_bytes {
            self.superseded += self.runs.spill(&mut self.sort_buffer)?;
            fail_point::hit("import-after-run");
        }
        Ok(())
    }

    pub(crate) fn home_prefix(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.homed.insert(NameKey::from_prefix(prefix)?);
        Ok(())
    }

    /// Merges all records in key order; also returns the number of records superseded so far.
    pub(crate) fn merge(&mut self) -> Result<(RunMerge<'_>, u64), ImportError> {
        self.sort_buffer.sort();
        let (merge, superseded) = self.runs.merge(&self.sort_buffer)?;
        Ok((merge, self.superseded + superseded))
    }
}

#[cfg(all(test, feature = "postgres", unix))]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A locked or recent directory is in use; an old and unlocked one is abandoned.
    #[test]
    fn removes_abandoned_directories() {
        let create = |name: &str| {
            let path = std::env::temp_dir().join(format!("{TEMP_DIR_PREFIX}{}-{name}", std::process::id()));
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
        let mut buffer = ImportBuffer::in_temp_dir().unwrap();
        assert!(!abandoned.exists() && locked.exists() && recent.exists());
        // Its own directory is removed on drop.
        buffer.max_buffer_bytes = 1;
        buffer.add("10.1/1", &[]).unwrap();
        let own = buffer.runs.dir().to_owned();
        assert!(own.join("run-0").exists());
        drop(buffer);
        assert!(!own.exists());
        drop(lock);
        [locked, recent].iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
    }
}
