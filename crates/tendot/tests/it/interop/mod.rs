//! Interoperability with pyhandle, schemathesis, Zotero and the validators of OpenAPI and DataCite.

mod pyhandle;
mod schemathesis;
mod validators;
mod zotero;

use std::path::{Path, PathBuf};

/// Directory of the programs of a Python environment with these packages, in the target directory.
fn python_environment(packages: &[&str]) -> PathBuf {
    tendot_testing::python_environment(Path::new(env!("CARGO_TARGET_TMPDIR")), packages)
}

/// Path of a file in this directory.
fn interop_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/interop").join(name)
}
