//! Handle.Net batch text: creates and homes are imported in bulk, other operations applied one by one.

use super::source::ImportSource;
use super::{ImportItem, ItemSink};
use crate::CliError;
use crate::handle::batch_language::{BatchOperation, BatchReader};

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, reader) = source.into_parts();
    let mut entries = BatchReader::new(reader, &name);
    while let Some(entry) = entries.next_entry()? {
        let (line, item) = match entry.operation {
            Err(error) => (error.line, ImportItem::Refused(error.reason)),
            Ok(BatchOperation::Create(record)) => (entry.line, ImportItem::Record(record)),
            Ok(BatchOperation::Home { prefix }) => {
                (entry.line, ImportItem::HomePrefix(strip_prefix_handle(&prefix)))
            }
            Ok(operation @ (BatchOperation::Authenticate(_) | BatchOperation::SessionSetup)) => {
                let keyword = operation.keyword();
                let note = format!("{keyword} skipped: an import writes to the store without authentication");
                (entry.line, ImportItem::Note(note))
            }
            Ok(operation) => (entry.line, ImportItem::Operation(operation)),
        };
        take(line, item)?;
    }
    Ok(())
}

/// Prefix of `0.NA/10.5555` or `10.5555`.
fn strip_prefix_handle(prefix: &str) -> String {
    match prefix.split_at_checked(5) {
        Some((start, prefix)) if start.eq_ignore_ascii_case("0.NA/") => prefix.into(),
        _ => prefix.into(),
    }
}
