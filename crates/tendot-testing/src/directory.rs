use std::path::Path;

use tempfile::TempDir;

/// A temporary directory in memory, where `fsync` costs nothing; on disk where the system has no `/dev/shm`.
pub fn ram_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}
