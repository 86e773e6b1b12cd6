use std::path::Path;

use clap::ValueEnum;

use super::ImportSource;
use crate::CliError;

/// Input format of `tendot import`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// a JSON object a line: `{"handle": …, "values": […]}`
    Jsonl,
    /// name,url
    Csv,
    /// Handle.Net's JSON dump, with `homedPrefixes` and `handleRecords`
    HandleNet,
    /// Handle.Net's batch text, of which CREATE and HOME are taken
    HandleBatch,
}

impl ImportFormat {
    /// By the end of the file's name, and for `.json` by its beginning.
    pub(crate) fn detect(path: &Path, source: &mut ImportSource) -> Result<Self, CliError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        Ok(match extension.to_str() {
            Some("csv") => Self::Csv,
            Some("txt") => Self::HandleBatch,
            Some("json") if is_dump(source.peek()?) => Self::HandleNet,
            _ => Self::Jsonl,
        })
    }
}

/// Whether the first member of the object is one that only a dump has.
fn is_dump(beginning: &[u8]) -> bool {
    let trimmed = beginning.trim_ascii_start();
    let member = trimmed.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
    member.starts_with(b"\"handleRecords\"") || member.starts_with(b"\"homedPrefixes\"")
}
