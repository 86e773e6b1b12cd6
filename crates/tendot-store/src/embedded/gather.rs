//! The records of an import, before any of them is written: in memory, and where they are too many in sorted runs on disk.

use std::collections::BTreeSet;
use std::io;
#[cfg(all(feature = "postgres", unix))]
use std::path::Path;
use std::path::PathBuf;
#[cfg(feature = "postgres")]
use std::sync::atomic::{AtomicU32, Ordering};

use tendot_proto::Value;
use tendot_proto::wire::{List, Writer};

#[cfg(all(feature = "postgres", unix))]
use super::folder;
use super::import::ImportError;
use super::lock::Lock;
use super::run::{Buffer, Merge, Runs};
use crate::{Key, fail_point};

/// Bytes of records that wait in memory, unless told otherwise.
const BUFFER: usize = 32 << 20;

/// Records that are given to an import together. They can be made in any thread.
///
/// ```
/// use tendot_store::{Batch, Importer};
/// use tendot_proto::Value;
///
/// let directory = tempfile::tempdir()?;
/// let mut batch = Batch::new();
/// batch.put("10.1000/1", &[Value::new(1, "URL", "https://example.org/1")])?;
/// assert!(batch.put("", &[]).is_err(), "what cannot be kept is not taken");
/// let mut importer = Importer::open(directory.path(), "operator", 1_700_000_000_000)?;
/// importer.put_all(&batch)?;
/// assert_eq!(importer.finish(|_| {})?.created, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch(Buffer);

impl Batch {
    /// One without records.
    pub const fn new() -> Self {
        Self(Buffer::new())
    }

    /// Adds a record.
    pub fn put(&mut self, name: &str, values: &[Value<'_>]) -> Result<(), ImportError> {
        put(&mut self.0, name, values)
    }

    /// How many records there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that they take.
    pub const fn size(&self) -> usize {
        self.0.size()
    }
}

fn put(buffer: &mut Buffer, name: &str, values: &[Value<'_>]) -> Result<(), ImportError> {
    buffer.push(name, |bytes| List::from(values).encode(&mut Writer::new(bytes)))
}

/// How the folders of runs begin that have none of a store to be in.
#[cfg(feature = "postgres")]
const TEMPORARY: &str = "tendot-import-";

/// Whether a folder has the same owner as another.
#[cfg(all(feature = "postgres", unix))]
fn is_ours(folder: &Path, ours: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let found = |path: &Path| std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir);
    found(folder).zip(found(ours)).is_some_and(|(one, two)| one.uid() == two.uid())
}

/// What an import has so far.
#[derive(Debug)]
pub(crate) struct Gathered {
    waiting: Buffer,
    /// Bytes of records that wait in memory before they go to disk.
    pub(crate) buffer: usize,
    superseded: u64,
    pub(crate) homed: BTreeSet<Key>,
    /// Gone before the lock is.
    runs: Runs,
    _lock: Option<Lock>,
}

impl Gathered {
    /// Nothing yet. The folder is made, and is gone with this.
    pub(crate) fn new(folder: PathBuf) -> io::Result<Self> {
        let runs = Runs::new(folder)?;
        let (waiting, homed) = (Buffer::new(), BTreeSet::new());
        Ok(Self { waiting, buffer: BUFFER, superseded: 0, homed, runs, _lock: None })
    }

    /// The same among the temporary files of this machine. What an import left there that was ended by force is removed.
    #[cfg(feature = "postgres")]
    pub(crate) fn temporary() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let above = std::env::temp_dir();
        let path = above.join(format!("{TEMPORARY}{process}-{number}"));
        let mut gathered = Self::new(path.clone())?;
        gathered._lock = Some(Lock::take(&path).map_err(io::Error::other)?);
        #[cfg(unix)]
        for left in std::fs::read_dir(&above)?.flatten().map(|entry| entry.path()) {
            let is_one = left.file_name().and_then(|name| name.to_str()?.strip_prefix(TEMPORARY)).is_some();
            // Others may put there what they like.
            if is_one && left != path && is_ours(&left, &path) && Lock::take(&left).is_ok() {
                // If it cannot be, the next import tries again.
                let _ = folder::remove(&left);
            }
        }
        Ok(gathered)
    }

    pub(crate) fn put(&mut self, name: &str, values: &[Value<'_>]) -> Result<(), ImportError> {
        put(&mut self.waiting, name, values)?;
        self.spill()
    }

    pub(crate) fn put_all(&mut self, batch: &Batch) -> Result<(), ImportError> {
        self.waiting.append(&batch.0);
        self.spill()
    }

    fn spill(&mut self) -> Result<(), ImportError> {
        if self.waiting.size() >= self.buffer {
            self.superseded += self.runs.spill(&mut self.waiting)?;
            fail_point::pass("import: a run is written");
        }
        Ok(())
    }

    pub(crate) fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.homed.insert(Key::of_prefix(prefix)?);
        Ok(())
    }

    /// All of them, in the order of their keys, and how many others had been taken the place of already.
    pub(crate) fn merge(&mut self) -> Result<(Merge<'_>, u64), ImportError> {
        self.waiting.sort();
        let (merge, superseded) = self.runs.merge(&self.waiting)?;
        Ok((merge, self.superseded + superseded))
    }
}
