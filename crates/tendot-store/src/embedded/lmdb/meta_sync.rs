//! Syncs LMDB's meta pages when a store is opened, so that the recovered state is durable.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

use heed::Env;

use super::transaction::is_out_of_space;

/// Writes both meta pages again, unchanged, and syncs the file.
///
/// An earlier process may have been killed before the sync of a meta page ended, or the sync may have failed. The page in the cache
/// then differs from the one on the disk, and a state that can still be lost must not be read. The page has to be written again,
/// because the system does not retry a failed sync.
pub(super) fn sync_meta_pages(env: &Env) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(env.path().join("data.mdb"))?;
    let mut pages = vec![0; 2 * env.unnamed_database_stat().page_size as usize];
    file.read_exact(&mut pages)?;
    file.rewind()?;
    match file.write_all(&pages) {
        // Copy-on-write file systems need free space to rewrite a page; the store stays readable when the disk is full.
        Err(error) if is_out_of_space(error.kind()) => {}
        written => written?,
    }
    file.sync_data()
}
