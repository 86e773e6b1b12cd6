//! Software of others against the server: pyhandle and schemathesis.

mod pyhandle;
mod schemathesis;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tendot_testing::run_checked;

/// The programs of a Python environment with these packages, in the target directory.
///
/// It is installed once; test programs that run side by side wait for each other.
fn python_environment(packages: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(target).unwrap();
    let environment = target.join(packages.join("-"));
    let lock = File::create(target.join(format!("{}.lock", packages[0]))).unwrap();
    lock.lock().unwrap();
    let (programs, complete) = (environment.join("bin"), environment.join("complete"));
    if !complete.exists() {
        run_checked(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run_checked(
            Command::new(programs.join("python")).args(["-m", "pip", "install", "--quiet"]).args(packages),
        );
        File::create(complete).unwrap();
    }
    programs
}

/// The path of a file of this module.
fn interop_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/interop").join(name)
}
