use std::path::Path;
use std::process::Command;

use tempfile::{NamedTempFile, TempDir};

use crate::{ram_dir, run_checked};

/// A small file system, to be filled; unmounted on drop.
#[derive(Debug)]
pub struct MountedDisk {
    directory: TempDir,
    _image: Option<NamedTempFile>,
}

impl MountedDisk {
    /// A file system in memory.
    pub fn tmpfs(bytes: u64) -> Self {
        let directory = ram_dir();
        let options = format!("size={bytes}");
        run_checked(
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path()),
        );
        Self { directory, _image: None }
    }

    /// An ext4 file system in an image.
    pub fn ext4(bytes: u64) -> Self {
        let (directory, image) = (ram_dir(), NamedTempFile::new().unwrap());
        image.as_file().set_len(bytes).unwrap();
        run_checked(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image.path()));
        let mut mount = Command::new("mount");
        run_checked(mount.args(["-o", "loop"]).arg(image.path()).arg(directory.path()));
        Self { directory, _image: Some(image) }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
