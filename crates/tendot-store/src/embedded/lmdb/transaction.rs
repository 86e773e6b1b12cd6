//! The end of every transaction, good or bad.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::sync::OnceLock;

use heed::{MdbError, RwTxn};

use super::{DictionaryCache, Lmdb, environment};

impl Lmdb {
    /// Commits a transaction, with its own number in it: so a state tells which one it is, and the engine can be told
    /// wrong.
    pub(crate) fn commit(&self, mut txn: RwTxn<'_>) -> Result<(), heed::Error> {
        let number = txn.id() as u64;
        self.write_counter(&mut txn, b"transaction", number)?;
        txn.commit().map_err(|error| match error {
            // LMDB tells of a write that was cut short only that it failed.
            heed::Error::Io(_) if !is_disk_full(&error) => {
                self.probe_free_space().map_or(error, heed::Error::Io)
            }
            _ => error,
        })
    }

    /// Why nothing can be added to the disk, if so.
    fn probe_free_space(&self) -> Option<io::Error> {
        let path = self.env.path().join("tendot.room");
        let length = std::fs::metadata(self.env.path().join("data.mdb")).map_or(0, |metadata| metadata.len());
        // As far out as the store: there may also be a limit for each file.
        let tried = File::create(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(length))?;
            file.write_all(&[0; 4_096])?;
            file.sync_data()
        });
        let _ = std::fs::remove_file(&path);
        tried.err().filter(|error| is_out_of_space(error.kind()))
    }

    /// Whether the engine does nothing any more, not even read: it could not write the page that tells the last state.
    pub(crate) fn is_poisoned(&self) -> bool {
        matches!(self.env.read_txn(), Err(heed::Error::Mdb(MdbError::Panic)))
    }

    /// The store, opened once more for reading when the engine is lost; then nobody writes any more.
    pub(crate) fn read_only_fallback(&self) -> Option<&Self> {
        let open = || {
            let env = environment::open_read_only_fallback(self.env.path())?;
            let databases = environment::Databases::open(&env)?;
            Ok::<_, heed::Error>(databases.map(|databases| {
                Box::new(Self { env, databases, parts: DictionaryCache::new(), standby: OnceLock::new() })
            }))
        };
        // Without, readers are told that nothing can be read.
        self.standby.get_or_init(|| open().unwrap_or_default()).as_deref()
    }
}

/// Whether there was no room: the change came to nothing, and the next one may fit. Nothing of it is relied on then: its
/// pages are free, and are written anew when they are used.
pub(crate) fn is_disk_full(error: &heed::Error) -> bool {
    match error {
        heed::Error::Io(error) => is_out_of_space(error.kind()),
        heed::Error::Mdb(error) => matches!(error, MdbError::MapFull),
        _ => false,
    }
}

const fn is_out_of_space(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}
