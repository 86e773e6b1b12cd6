//! Writes and checks a backup file: see `docs/background/storage-format.md`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use heed::CompactionOption;
use xxhash_rust::xxh3::Xxh3;

use super::restore::RestoreError;
use super::{EmbeddedStore, backend_error};
use crate::StoreError;

const BACKUP_MAGIC: &[u8; 16] = b"tendot backup 1\n";

/// Common prefix of the headers of all versions.
const BACKUP_MAGIC_PREFIX: &[u8] = b"tendot backup ";

/// Bytes before the copy (header and length) and after it (checksum).
const BACKUP_HEADER_BYTES: u64 = 16 + 8;
const BACKUP_TRAILER_BYTES: u64 = 16;

impl EmbeddedStore {
    /// Writes a snapshot of the store to a file while others may write, then reads the file back and verifies it. Returns its
    /// size.
    pub fn backup(&self, file: &mut File) -> Result<u64, StoreError> {
        let write_error = |error: io::Error| StoreError::Backend {
            operation: "writing the backup",
            error: Box::new(error),
        };
        file.write_all(BACKUP_MAGIC).map_err(write_error)?;
        file.write_all(&[0; 8]).map_err(write_error)?;
        self.lmdb()
            .env
            .copy_to_file(file, CompactionOption::Enabled)
            .map_err(|error| backend_error("copying the store", error))?;
        let length = file.seek(SeekFrom::End(0)).map_err(write_error)? - BACKUP_HEADER_BYTES;
        file.seek(SeekFrom::Start(BACKUP_MAGIC.len() as u64)).map_err(write_error)?;
        file.write_all(&length.to_le_bytes()).map_err(write_error)?;
        file.sync_all().map_err(write_error)?;
        let sum =
            copy_and_hash(file, length, &mut io::sink()).map_err(|error| write_error(error.into_inner()))?;
        file.write_all(&sum).map_err(write_error)?;
        file.sync_all().map_err(write_error)?;
        file.rewind().map_err(write_error)?;
        BackupFile::open(file).and_then(|backup| backup.copy_to(&mut io::sink(), Path::new(""))).map_err(
            |error| StoreError::Backend { operation: "verifying the backup", error: Box::new(error) },
        )?;
        Ok(BACKUP_HEADER_BYTES + length + BACKUP_TRAILER_BYTES)
    }
}

/// Backup file whose header and length have been checked.
pub(crate) struct BackupFile<'a> {
    file: &'a mut File,
    length: u64,
}

impl<'a> BackupFile<'a> {
    pub(crate) fn open(file: &'a mut File) -> Result<Self, RestoreError> {
        let actual = file.metadata().map_err(RestoreError::Read)?.len();
        let mut header = [0; BACKUP_MAGIC.len()];
        let mut length = [0; 8];
        let read = file.read_exact(&mut header).and_then(|()| file.read_exact(&mut length));
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(RestoreError::NotABackup);
            }
            Err(error) => return Err(RestoreError::Read(error)),
            Ok(()) => {}
        }
        if header != *BACKUP_MAGIC {
            let is_backup = header.starts_with(BACKUP_MAGIC_PREFIX);
            return Err(if is_backup { RestoreError::UnknownVersion } else { RestoreError::NotABackup });
        }
        let length = u64::from_le_bytes(length);
        let expected = length.saturating_add(BACKUP_HEADER_BYTES + BACKUP_TRAILER_BYTES);
        if expected != actual {
            return Err(RestoreError::LengthMismatch { expected, actual });
        }
        Ok(Self { file, length })
    }

    /// Copies the content to the file at a path, and verifies its checksum.
    pub(crate) fn copy_to(self, to: &mut impl io::Write, path: &Path) -> Result<(), RestoreError> {
        let copied = copy_and_hash(self.file, self.length, to);
        let actual = copied.map_err(|error| match error {
            CopyError::Read(error) => RestoreError::Read(error),
            CopyError::Write(error) => RestoreError::Io { path: path.into(), error },
        })?;
        let mut expected = [0; 16];
        self.file.read_exact(&mut expected).map_err(RestoreError::Read)?;
        if actual == expected { Ok(()) } else { Err(RestoreError::ChecksumMismatch) }
    }
}

/// Error of a copy.
enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

impl CopyError {
    fn into_inner(self) -> io::Error {
        let (Self::Read(error) | Self::Write(error)) = self;
        error
    }
}

/// Copies the content and returns its checksum (XXH3-128).
fn copy_and_hash(file: &mut File, length: u64, to: &mut impl io::Write) -> Result<[u8; 16], CopyError> {
    file.seek(SeekFrom::Start(BACKUP_HEADER_BYTES)).map_err(CopyError::Read)?;
    let mut reader = BufReader::with_capacity(1 << 20, Read::by_ref(file).take(length));
    let mut hash = Xxh3::new();
    loop {
        let chunk = io::BufRead::fill_buf(&mut reader).map_err(CopyError::Read)?;
        if chunk.is_empty() {
            break;
        }
        hash.update(chunk);
        to.write_all(chunk).map_err(CopyError::Write)?;
        let length = chunk.len();
        io::BufRead::consume(&mut reader, length);
    }
    file.seek(SeekFrom::Start(BACKUP_HEADER_BYTES + length)).map_err(CopyError::Read)?;
    Ok(hash.digest128().to_be_bytes())
}
