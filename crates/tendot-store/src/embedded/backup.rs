//! Copies of a store in one file, and stores made of them: see `docs/storage-format.md`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use heed::CompactionOption;
use xxhash_rust::xxh3::Xxh3;

use super::lock::Lock;
use super::{Embedded, OpenError, Tables, checksum};
use crate::{LockError, StoreError};

const HEADER: &[u8; 16] = b"tendot backup 1\n";

/// Bytes before and after the copy: header and length, checksum.
const BEFORE: u64 = 16 + 8;
const AFTER: u64 = 16;

impl Embedded {
    /// Writes a copy of the store into a file: one state, whatever is written meanwhile. What is in the file afterwards
    /// has been read and checked; its bytes are counted.
    pub fn backup(&self, file: &mut File) -> Result<u64, StoreError> {
        let writing =
            |error: io::Error| StoreError::Failed { doing: "writing the backup", error: Box::new(error) };
        file.write_all(HEADER).map_err(writing)?;
        file.write_all(&[0; 8]).map_err(writing)?;
        self.tables
            .env
            .copy_to_file(file, CompactionOption::Enabled)
            .map_err(|error| super::failed("copying the store", error))?;
        let length = file.seek(SeekFrom::End(0)).map_err(writing)? - BEFORE;
        file.seek(SeekFrom::Start(HEADER.len() as u64)).map_err(writing)?;
        file.write_all(&length.to_le_bytes()).map_err(writing)?;
        file.sync_all().map_err(writing)?;
        let sum = copy(file, length, &mut io::sink()).map_err(writing)?;
        file.write_all(&sum).map_err(writing)?;
        file.sync_all().map_err(writing)?;
        file.rewind().map_err(writing)?;
        Backup::open(file)
            .and_then(|backup| backup.copy_to(&mut io::sink()))
            .map_err(|error| StoreError::Failed { doing: "checking the backup", error: Box::new(error) })?;
        Ok(BEFORE + length + AFTER)
    }
}

/// Makes a store of a backup, and tells where the store went that was there, if one was and `replace` allows it.
///
/// The backup is read and checked before anything is replaced.
///
/// ```
/// use tendot_store::{Embedded, RestoreError, restore};
///
/// let directory = tempfile::tempdir()?;
/// let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// let mut file = tempfile::tempfile()?;
/// Embedded::open(&from)?.backup(&mut file)?;
///
/// restore(&mut file, &to, false)?;
/// assert!(Embedded::open(&to).is_ok());
/// assert!(matches!(restore(&mut file, &to, false), Err(RestoreError::Occupied { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(file: &mut File, directory: &Path, replace: bool) -> Result<Option<PathBuf>, RestoreError> {
    let failed = |error| RestoreError::Failed { path: directory.into(), error };
    file.rewind().map_err(RestoreError::Read)?;
    let backup = Backup::open(file)?;
    std::fs::create_dir_all(directory).map_err(failed)?;
    let _lock = Lock::take(directory)?;
    let data = directory.join("data.mdb");
    let is_occupied = data.try_exists().map_err(failed)?;
    if is_occupied && !replace {
        return Err(RestoreError::Occupied { directory: directory.into() });
    }
    let folder = directory.join("restoring");
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => std::fs::create_dir(&folder).map_err(failed)?,
    }
    let prepared = prepare(backup, &folder);
    if let Err(error) = prepared {
        // The reason matters; what is left is removed by the next attempt at the latest.
        let _ = std::fs::remove_dir_all(&folder);
        return Err(error);
    }
    let aside = if is_occupied { Some(move_aside(directory).map_err(failed)?) } else { None };
    std::fs::rename(folder.join("data.mdb"), &data).map_err(failed)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    std::fs::remove_dir_all(&folder).map_err(failed)?;
    Ok(aside)
}

/// A store of its own, with a lineage of its own.
fn prepare(backup: Backup<'_>, folder: &Path) -> Result<(), RestoreError> {
    let failed = |error| RestoreError::Failed { path: folder.into(), error };
    let mut data = File::create_new(folder.join("data.mdb")).map_err(failed)?;
    backup.copy_to(&mut data)?;
    data.sync_all().map_err(failed)?;
    drop(data);
    let (tables, _lock) = Tables::open(folder)?;
    tables.put_lineage().map_err(|error| {
        RestoreError::Open(OpenError::Failed { directory: folder.into(), error: Box::new(error) })
    })
}

fn move_aside(directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    let aside = loop {
        let aside = directory.join(format!("old-{number}"));
        match std::fs::create_dir(&aside) {
            Ok(()) => break aside,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    for name in ["lock.mdb", "data.mdb"] {
        match std::fs::rename(directory.join(name), aside.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// A file that is a backup, as far as its header and length tell.
struct Backup<'a> {
    file: &'a mut File,
    length: u64,
}

impl<'a> Backup<'a> {
    fn open(file: &'a mut File) -> Result<Self, RestoreError> {
        let there = file.metadata().map_err(RestoreError::Read)?.len();
        let mut header = [0; HEADER.len()];
        let mut length = [0; 8];
        let read = file.read_exact(&mut header).and_then(|()| file.read_exact(&mut length));
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(RestoreError::NoBackup),
            Err(error) => return Err(RestoreError::Read(error)),
            Ok(()) => {}
        }
        if header != *HEADER {
            return Err(RestoreError::NoBackup);
        }
        let length = u64::from_le_bytes(length);
        let announced = length.saturating_add(BEFORE + AFTER);
        if announced != there {
            return Err(RestoreError::OtherLength { announced, there });
        }
        Ok(Self { file, length })
    }

    /// Copies what is in it; an error if it is not what was written.
    fn copy_to(self, to: &mut impl io::Write) -> Result<(), RestoreError> {
        let found = copy(self.file, self.length, to).map_err(RestoreError::Read)?;
        let mut sum = [0; 16];
        self.file.read_exact(&mut sum).map_err(RestoreError::Read)?;
        if found == sum { Ok(()) } else { Err(RestoreError::Damaged) }
    }
}

/// Copies the bytes after header and length, and gives their checksum.
fn copy(file: &mut File, length: u64, to: &mut impl io::Write) -> io::Result<[u8; 16]> {
    file.seek(SeekFrom::Start(BEFORE))?;
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
    file.seek(SeekFrom::Start(BEFORE + length))?;
    Ok(hash.digest128().to_be_bytes())
}

impl Tables {
    /// Gives the store a lineage that no other has.
    pub(super) fn put_lineage(&self) -> Result<(), heed::Error> {
        use std::hash::{BuildHasher as _, RandomState};
        // Not a secret, only never the same twice: the keys of hash maps come from the system's source of randomness.
        let random = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
        let mut value = [random(), random()].concat();
        checksum::seal(b"lineage", &mut value);
        let mut txn = self.env.write_txn()?;
        self.databases.meta.put(&mut txn, b"lineage", &value)?;
        txn.commit()
    }
}

/// Why a backup does not become a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file is something else.
    #[error("this is no backup, or one of a version that is not known")]
    NoBackup,
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
