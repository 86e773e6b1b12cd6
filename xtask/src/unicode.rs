//! Makes the table of characters that names may not have, from the Unicode Character Database as npm ships it.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{output, run};
use crate::root;

const VERSION: (u8, u8, u8) = (18, 0, 0);

pub(crate) fn unicode() -> Result<()> {
    let (major, minor, patch) = VERSION;
    let package = format!("@unicode/unicode-{major}.{minor}.{patch}");
    let folder = root().join("target/unicode");
    std::fs::create_dir_all(&folder)?;
    run(Command::new("npm").args(["install", "--silent", "--no-save", &package]).current_dir(&folder))?;
    let script = root().join("xtask/src/unicode_ranges.mjs");
    let lines = output(Command::new("node").arg(script).arg(&folder).arg(&package))?;

    let mut ranges = Vec::new();
    for line in lines.lines() {
        let mut fields = line.split(' ');
        let mut field = || fields.next().context("a line has three fields");
        let (first, last): (u32, u32) = (field()?.parse()?, field()?.parse()?);
        let kind = match field()? {
            "Control" => "ControlCharacter",
            "Format" | "Line_Separator" | "Paragraph_Separator" => "FormatCharacter",
            "Private_Use" => "PrivateUseCharacter",
            "Unassigned" => "UnassignedCharacter",
            other => bail!("unknown category {other}"),
        };
        ranges.push((first, last, kind));
    }
    ranges.sort_unstable();

    let mut table = format!(
        "// Made by `cargo xtask unicode` from the Unicode Character Database.\n\n\
         use crate::ErrorKind::{{\n    self, ControlCharacter as C, FormatCharacter as F, PrivateUseCharacter as P, UnassignedCharacter as U,\n}};\n\n\
         /// The version of Unicode that decides which characters are graphic.\n\
         pub const UNICODE_VERSION: (u8, u8, u8) = {VERSION:?};\n\n\
         /// All code points that are not graphic, in order: first, last, and what is wrong with them.\n\
         #[rustfmt::skip]\n\
         pub(crate) static NOT_GRAPHIC: [(u32, u32, ErrorKind); {}] = [\n",
        ranges.len(),
    );
    for row in ranges.chunks(4) {
        let row: Vec<_> = row
            .iter()
            .map(|(first, last, kind)| format!("({first:#X}, {last:#X}, {}),", &kind[..1]))
            .collect();
        writeln!(table, "    {}", row.join(" "))?;
    }
    table.push_str("];\n");
    std::fs::write(root().join("crates/tendot-names/src/unicode_table.rs"), table)?;
    Ok(())
}
