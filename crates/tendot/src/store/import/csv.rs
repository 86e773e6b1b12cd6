//! CSV input with the columns name and URL.

use tendot_names::{InputForm, Parser, SyntaxRules};
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
            Ok(fields) => record_from_row(fields).map_or_else(ImportItem::Refused, decode_name),
            Err(reason) => ImportItem::Refused(reason),
        };
        take(row.line, item)?;
    }
    Ok(())
}

/// Decodes a DOI in a written form, such as `https://doi.org/…`. Bare names and other handles are literal.
fn decode_name(record: HandleRecord<'static>) -> ImportItem {
    let parsed = Parser::strict().rules(SyntaxRules::Minimal2002).parse_bytes(&record.handle).ok();
    let decoded = parsed.and_then(|parsed| {
        let form = Some(parsed.input_form()).filter(|form| *form != InputForm::Bare)?;
        let doi = parsed.doi().filter(|doi| doi.prefix().starts_with("10."))?;
        Some((doi.as_str().as_bytes().to_vec(), form))
    });
    match decoded {
        Some((name, form)) => {
            let written = String::from_utf8_lossy(&record.handle).into_owned();
            let record = HandleRecord { handle: name.into(), ..record };
            ImportItem::DecodedRecord { record, written, form }
        }
        None => ImportItem::Record(record),
    }
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
