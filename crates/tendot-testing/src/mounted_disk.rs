use std::path::Path;
use std::process::Command;

use tempfile::{NamedTempFile, TempDir};

use crate::{ram_dir, run_checked};

/// Name of the filler file.
const FILLER: &str = "filler";

/// A small file system, unmounted on drop. Needs root.
#[derive(Debug)]
pub struct MountedDisk {
    directory: TempDir,
    _image: Option<NamedTempFile>,
}

impl MountedDisk {
    /// A `tmpfs` with these mount options, such as `size=400k`.
    pub fn tmpfs(options: &str) -> Self {
        let directory = ram_dir();
        run_checked(
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path()),
        );
        Self { directory, _image: None }
    }

    /// An ext4 file system in an image of this size.
    pub fn ext4(bytes: u64) -> Self {
        Self::in_image(bytes, Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]))
    }

    /// An ext4 file system without a journal, thin-provisioned: its image is on a disk that may become full first; syncs fail then.
    pub fn ext4_on(backing: &Self, bytes: u64) -> Self {
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0", "-O", "^has_journal"]);
        Self::with_image(NamedTempFile::new_in(backing.path()).unwrap(), bytes, &mut make)
    }

    /// An XFS file system, of the smallest possible size.
    pub fn xfs() -> Self {
        Self::in_image(320 << 20, Command::new("mkfs.xfs").args(["-q", "-f", "-K"]))
    }

    fn in_image(bytes: u64, make: &mut Command) -> Self {
        let directory = ram_dir();
        let image = NamedTempFile::new_in(directory.path().parent().unwrap()).unwrap();
        Self::with_image(image, bytes, make)
    }

    fn with_image(image: NamedTempFile, bytes: u64, make: &mut Command) -> Self {
        let directory = ram_dir();
        image.as_file().set_len(bytes).unwrap();
        run_checked(make.arg(image.path()));
        run_checked(Command::new("mount").args(["-o", "loop"]).args([image.path(), directory.path()]));
        Self { directory, _image: Some(image) }
    }

    /// Directory in which it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Changes the mount options.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        run_checked(Command::new("mount").args(["-o", &options]).arg(self.path()));
    }

    /// Fills the disk until this many bytes are free.
    pub fn fill_to(&self, free_bytes: u64) {
        let output = Command::new("df").args(["-B1", "--output=avail"]).arg(self.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let available: u64 = text.lines().last().unwrap().trim().parse().unwrap();
        let length = available.checked_sub(free_bytes).unwrap().to_string();
        run_checked(Command::new("fallocate").args(["-l", &length]).arg(self.path().join(FILLER)));
    }

    /// Frees what [`fill_to`](Self::fill_to) has taken.
    pub fn remove_filler(&self) {
        std::fs::remove_file(self.path().join(FILLER)).unwrap();
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory.path()).status();
    }
}
