//! Reference pages of the documentation that are generated from the program.

use anyhow::Result;
use xshell::cmd;

use crate::process::shell;

/// Writes the generated pages in `docs/reference`: command line, settings and error codes.
pub(crate) fn write_reference_pages() -> Result<()> {
    let sh = shell()?;
    Ok(cmd!(sh, "cargo run --quiet --package tendot -- reference --dir docs/reference").run()?)
}
