//! The project's chores: `cargo xtask test` and friends, exactly what CI runs.

mod process;
mod unicode;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some("unicode") => unicode::unicode(),
        _ => anyhow::bail!("usage: cargo xtask test"),
    }
}
