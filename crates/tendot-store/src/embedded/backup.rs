//! Copies of a store in one file, and stores made of them: see `docs/storage-format.md`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use heed::CompactionOption;
use xxhash_rust::xxh3::Xxh3;

use super::lock::DirectoryLock;
use super::{EmbeddedStore, Lmdb, OpenError, checksum, folder};
use crate::{LockError, StoreError, fail_point};

const BACKUP_MAGIC: &[u8; 16] = b"tendot backup 1\n";

/// What the headers of all versions begin with.
const BACKUP_MAGIC_PREFIX: &[u8] = b"tendot backup ";

/// Bytes before and after the copy: header and length, checksum.
const BACKUP_HEADER_BYTES: u64 = 16 + 8;
const BACKUP_TRAILER_BYTES: u64 = 16;

impl EmbeddedStore {
    /// Writes a copy of the store into a file: one state, whatever is written meanwhile. What is in the file afterwards
    /// has been read and checked; its bytes are counted.
    pub fn backup(&self, file: &mut File) -> Result<u64, StoreError> {
        let writing =
            |error: io::Error| StoreError::Failed { doing: "writing the backup", error: Box::new(error) };
        file.write_all(BACKUP_MAGIC).map_err(writing)?;
        file.write_all(&[0; 8]).map_err(writing)?;
        self.lmdb()
            .env
            .copy_to_file(file, CompactionOption::Enabled)
            .map_err(|error| super::backend_error("copying the store", error))?;
        let length = file.seek(SeekFrom::End(0)).map_err(writing)? - BACKUP_HEADER_BYTES;
        file.seek(SeekFrom::Start(BACKUP_MAGIC.len() as u64)).map_err(writing)?;
        file.write_all(&length.to_le_bytes()).map_err(writing)?;
        file.sync_all().map_err(writing)?;
        let sum = copy_and_hash(file, length, &mut io::sink()).map_err(writing)?;
        file.write_all(&sum).map_err(writing)?;
        file.sync_all().map_err(writing)?;
        file.rewind().map_err(writing)?;
        BackupFile::open(file)
            .and_then(|backup| backup.copy_to(&mut io::sink()))
            .map_err(|error| StoreError::Failed { doing: "checking the backup", error: Box::new(error) })?;
        Ok(BACKUP_HEADER_BYTES + length + BACKUP_TRAILER_BYTES)
    }
}

/// Makes a store of a backup, and tells where the store went that was there, if one was and `replace` allows it.
///
/// The backup is read and checked before anything is replaced.
///
/// ```
/// use tendot_store::{EmbeddedStore, RestoreError, restore};
///
/// let directory = tempfile::tempdir()?;
/// let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// let mut file = tempfile::tempfile()?;
/// EmbeddedStore::open(&from)?.backup(&mut file)?;
///
/// restore(&mut file, &to, false)?;
/// assert!(EmbeddedStore::open(&to).is_ok());
/// assert!(matches!(restore(&mut file, &to, false), Err(RestoreError::Occupied { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(file: &mut File, directory: &Path, replace: bool) -> Result<Option<PathBuf>, RestoreError> {
    let failed = |error| RestoreError::Failed { path: directory.into(), error };
    file.rewind().map_err(RestoreError::Read)?;
    let backup = BackupFile::open(file)?;
    folder::create_dir(directory).map_err(failed)?;
    let _lock = DirectoryLock::acquire(directory)?;
    recover_interrupted(directory).map_err(failed)?;
    let is_occupied = directory.join("data.mdb").try_exists().map_err(failed)?;
    if is_occupied && !replace {
        return Err(RestoreError::Occupied { directory: directory.into() });
    }
    let restoring = directory.join(RESTORE_DIR);
    folder::recreate_private_dir(&restoring).map_err(failed)?;
    fail_point::hit("restore: the folder is made");
    let prepared = prepare_restored_store(backup, &restoring);
    if let Err(error) = prepared {
        // The reason matters; what is left is removed by the next one who writes at the latest.
        let _ = std::fs::remove_dir_all(&restoring);
        return Err(error);
    }
    replace_store(&restoring, directory, is_occupied).map_err(|error| {
        // Else the next one who writes does it.
        let _ = recover_interrupted(directory);
        failed(error)
    })
}

/// Where a store is made ready to take the place of another.
const RESTORE_DIR: &str = "restoring";

/// Where the other waits meanwhile, within that folder.
const REPLACED_DIR: &str = "aside";

/// Lets a store take the place of the one that is there. At every moment there is one, the old or the new; which of them
/// is settled by one renaming. Until then the old one has two names.
fn replace_store(restoring: &Path, directory: &Path, is_occupied: bool) -> io::Result<Option<PathBuf>> {
    let aside = restoring.join(REPLACED_DIR);
    if is_occupied {
        folder::recreate_private_dir(&aside)?;
        std::fs::hard_link(directory.join("data.mdb"), aside.join("data.mdb"))?;
        fail_point::hit("restore: the old store is linked");
        // Readers of the old store have their places in it, and the new one is not to find them.
        rename_if_exists(&directory.join("lock.mdb"), &aside.join("lock.mdb"))?;
        fail_point::hit("restore: the old lock is moved");
        folder::sync_dir(&aside)?;
        folder::sync_dir(restoring)?;
    }
    std::fs::rename(restoring.join("data.mdb"), directory.join("data.mdb"))?;
    folder::sync_dir(directory)?;
    fail_point::hit("restore: the new store is in place");
    recover_interrupted(directory)
}

/// Brings to its end what `replace_with` began, if it was interrupted: undone if the new store is still waiting, else
/// the old one gets a folder of its own, which is told.
pub(super) fn recover_interrupted(directory: &Path) -> io::Result<Option<PathBuf>> {
    let restoring = directory.join(RESTORE_DIR);
    let aside = restoring.join(REPLACED_DIR);
    let is_replaced = !restoring.join("data.mdb").try_exists()?;
    let mut kept = None;
    if aside.join("data.mdb").try_exists()? {
        if is_replaced {
            kept = Some(move_aside(&aside, directory)?);
            fail_point::hit("restore: the old store is aside");
        } else {
            rename_if_exists(&aside.join("lock.mdb"), &directory.join("lock.mdb"))?;
            // Before the new store, which tells that this one is still in its place.
            folder::remove_dir(&aside)?;
        }
    }
    folder::remove_dir(&restoring)?;
    Ok(kept)
}

/// Gives a store that was replaced a folder that is not taken.
fn move_aside(aside: &Path, directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = directory.join(format!("old-{number}"));
        if !folder.try_exists()? {
            std::fs::rename(aside, &folder)?;
            folder::sync_dir(directory)?;
            return Ok(folder);
        }
        number += 1;
    }
}

fn rename_if_exists(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A store of its own, with a lineage of its own.
fn prepare_restored_store(backup: BackupFile<'_>, restoring: &Path) -> Result<(), RestoreError> {
    let failed = |error| RestoreError::Failed { path: restoring.into(), error };
    let mut data = folder::create_private_file(&restoring.join("data.mdb")).map_err(failed)?;
    backup.copy_to(&mut data)?;
    data.sync_all().map_err(failed)?;
    drop(data);
    fail_point::hit("restore: the copy is written");
    let (tables, _lock) = Lmdb::open(restoring)?;
    let renewed = tables.renew_lineage();
    // Twice, because the engine keeps two states, and both are to be of this store.
    renewed
        .and_then(|()| tables.renew_lineage())
        .map_err(|error| OpenError::Failed { directory: restoring.into(), error: Box::new(error) })?;
    fail_point::hit("restore: the copy is a store");
    Ok(())
}

/// Backup file whose header and length have been checked.
struct BackupFile<'a> {
    file: &'a mut File,
    length: u64,
}

impl<'a> BackupFile<'a> {
    fn open(file: &'a mut File) -> Result<Self, RestoreError> {
        let there = file.metadata().map_err(RestoreError::Read)?.len();
        let mut header = [0; BACKUP_MAGIC.len()];
        let mut length = [0; 8];
        let read = file.read_exact(&mut header).and_then(|()| file.read_exact(&mut length));
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(RestoreError::NoBackup),
            Err(error) => return Err(RestoreError::Read(error)),
            Ok(()) => {}
        }
        if header != *BACKUP_MAGIC {
            let is_other = header.starts_with(BACKUP_MAGIC_PREFIX);
            return Err(if is_other { RestoreError::OtherVersion } else { RestoreError::NoBackup });
        }
        let length = u64::from_le_bytes(length);
        let announced = length.saturating_add(BACKUP_HEADER_BYTES + BACKUP_TRAILER_BYTES);
        if announced != there {
            return Err(RestoreError::OtherLength { announced, there });
        }
        Ok(Self { file, length })
    }

    /// Copies what is in it; an error if it is not what was written.
    fn copy_to(self, to: &mut impl io::Write) -> Result<(), RestoreError> {
        let found = copy_and_hash(self.file, self.length, to).map_err(RestoreError::Read)?;
        let mut sum = [0; 16];
        self.file.read_exact(&mut sum).map_err(RestoreError::Read)?;
        if found == sum { Ok(()) } else { Err(RestoreError::Damaged) }
    }
}

/// Copies the bytes after header and length, and gives their checksum.
fn copy_and_hash(file: &mut File, length: u64, to: &mut impl io::Write) -> io::Result<[u8; 16]> {
    file.seek(SeekFrom::Start(BACKUP_HEADER_BYTES))?;
    let mut reader = BufReader::with_capacity(1 << 20, Read::by_ref(file).take(length));
    let mut hash = Xxh3::new();
    loop {
        let piece = io::BufRead::fill_buf(&mut reader)?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        to.write_all(piece)?;
        let taken = piece.len();
        io::BufRead::consume(&mut reader, taken);
    }
    file.seek(SeekFrom::Start(BACKUP_HEADER_BYTES + length))?;
    Ok(hash.digest128().to_be_bytes())
}

impl Lmdb {
    /// Gives the store a lineage that no other has.
    pub(super) fn renew_lineage(&self) -> Result<(), heed::Error> {
        use std::hash::{BuildHasher as _, RandomState};
        // Not a secret, only never the same twice: the keys of hash maps come from the system's source of randomness.
        let random = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
        let mut value = [random(), random()].concat();
        checksum::append(b"lineage", &mut value);
        let mut txn = self.env.write_txn()?;
        self.databases.meta.put(&mut txn, b"lineage", &value)?;
        self.commit(txn)
    }
}

/// Reason why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file is something else.
    #[error("this is no backup")]
    NoBackup,
    /// The file is a backup of another version.
    #[error("this is a backup of a version that is not known")]
    OtherVersion,
    /// The file was cut off, or something was appended.
    #[error("the backup is damaged: it should have {announced} bytes, and has {there}")]
    OtherLength {
        /// What it should have.
        announced: u64,
        /// What it has.
        there: u64,
    },
    /// The file is not what was written.
    #[error("the backup is damaged: its checksum is wrong")]
    Damaged,
    /// The file cannot be read.
    #[error("the backup can't be read: {0}")]
    Read(io::Error),
    /// There is a store already.
    #[error("there is a store in {} already", directory.display())]
    Occupied {
        /// Where.
        directory: PathBuf,
    },
    /// Somebody else writes the directory.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// What is in the backup is no store that this version knows.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The directory cannot be written.
    #[error("{}: {error}", path.display())]
    Failed {
        /// What was written.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
}
