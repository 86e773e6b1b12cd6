//! Reference pages of the documentation that are generated from the program.

use std::process::Command;

use anyhow::Result;

use crate::process::run;
use crate::root;

/// Writes the generated pages in `docs/reference`: command line, settings and error codes.
pub(crate) fn write_reference_pages() -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "tendot", "--", "reference", "--dir", "docs/reference"]);
    run(command.current_dir(root()))
}
