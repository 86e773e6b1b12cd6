//! Files to search, in order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files named by the arguments; directories are walked depth-first in name order.
pub(crate) struct FileWalk {
    /// Paths left to visit, next one last.
    stack: Vec<PathBuf>,
}

impl FileWalk {
    pub(crate) fn new(arguments: &[PathBuf]) -> Self {
        Self { stack: arguments.iter().rev().cloned().collect() }
    }

    /// Replaces a directory by its entries, without hidden files and symbolic links (which could form cycles).
    fn push_children(&mut self, dir: &Path) -> io::Result<()> {
        let mut contents = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let kind = entry.file_type()?;
            if !is_hidden && (kind.is_file() || kind.is_dir()) {
                contents.push(entry.path());
            }
        }
        contents.sort_unstable_by(|a, b| b.cmp(a));
        self.stack.extend(contents);
        Ok(())
    }
}

impl Iterator for FileWalk {
    /// File with its metadata (none for stdin), or the path that could not be read.
    type Item = Result<(PathBuf, Option<fs::Metadata>), (PathBuf, io::Error)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let path = self.stack.pop()?;
            if path.as_os_str() == "-" {
                return Some(Ok((path, None)));
            }
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    if let Err(error) = self.push_children(&path) {
                        return Some(Err((path, error)));
                    }
                }
                Ok(metadata) => return Some(Ok((path, Some(metadata)))),
                Err(error) => return Some(Err((path, error))),
            }
        }
    }
}
