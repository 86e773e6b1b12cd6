//! Interoperability with pyhandle and schemathesis.

mod pyhandle;
mod schemathesis;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tendot_testing::run_checked;

/// Directory of the programs of a Python environment with these packages, in the target directory.
///
/// Installed once; concurrent test programs wait for each other.
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

/// Path of a file in this directory.
fn interop_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/interop").join(name)
}
