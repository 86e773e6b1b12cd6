//! CSV input with the columns name and URL.

use tendot_proto::HandleValue;
use tendot_proto::record::HandleRecord;

use super::source::ImportSource;
use super::{ImportItem, ItemSink};
use crate::CliError;
use crate::csv::CsvReader;

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, reader) = source.into_parts();
    let mut rows = CsvReader::new(name, reader);
    let mut is_first = true;
    while let Some(row) = rows.next_row()? {
        let is_header = std::mem::take(&mut is_first) && row.fields.as_ref().is_ok_and(|row| is_header(row));
        let item = match row.fields {
            Ok(fields) if is_header || fields.iter().all(Vec::is_empty) => continue,
            Ok(fields) => record_from_row(fields).map_or_else(ImportItem::Refused, ImportItem::Record),
            Err(reason) => ImportItem::Refused(reason),
        };
        take(row.line, item)?;
    }
    Ok(())
}

fn is_header(row: &[Vec<u8>]) -> bool {
    matches!(row, [_, url] if url.trim_ascii().eq_ignore_ascii_case(b"url"))
}

fn record_from_row(row: Vec<Vec<u8>>) -> Result<HandleRecord<'static>, String> {
    let count = row.len();
    let Ok([name, url]) = <[Vec<u8>; 2]>::try_from(row) else {
        return Err(format!("expected 2 fields (name,url), found {count}"));
    };
    if url.is_empty() {
        return Err("missing URL".into());
    }
    Ok(HandleRecord { handle: name.into(), values: vec![HandleValue::with_data(1, "URL", url)] })
}
