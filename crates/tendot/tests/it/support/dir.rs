use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tendot_testing::ram_dir;

use super::{tendot, text_output};

/// Temporary directory of one test, in memory.
#[derive(Debug)]
pub(crate) struct TestDir(TempDir);

impl TestDir {
    pub(crate) fn new() -> Self {
        Self(ram_dir())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Path of a file in the directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and returns its path as text.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().into()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Command `tendot` in this directory; its data directory is `tendot-data`.
    pub(crate) fn tendot(&self, arguments: &[&str]) -> Command {
        let mut command = tendot();
        command.args(arguments).current_dir(self.path());
        command
    }

    /// Runs the program; returns exit code, standard output and standard error.
    pub(crate) fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        text_output(&mut self.tendot(arguments))
    }

    /// Runs the program and checks its exit code; returns standard output and standard error.
    #[track_caller]
    pub(crate) fn run_to(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let (found, stdout, stderr) = self.run(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {stdout}{stderr}");
        (stdout, stderr)
    }

    /// Standard output of a run that succeeds.
    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &[&str]) -> String {
        self.run_to(0, arguments).0
    }

    /// Writes a self-signed `certificate.pem`, and `key.pem` with mode 0600.
    pub(crate) fn write_certificate(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        self.write("certificate.pem", certified.cert.pem());
        self.write("key.pem", certified.signing_key.serialize_pem());
        self.set_mode("key.pem", 0o600);
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Mode of a file, such as `0o600`.
    pub(crate) fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.file(name)).unwrap().permissions().mode() & 0o777
    }
}
