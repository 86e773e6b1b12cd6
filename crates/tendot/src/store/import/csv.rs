//! CSV input: names and URLs, in the columns that the header row names, or as `name,url` without one.

use std::io::{BufRead as _, Cursor, Read as _};

use tendot_names::{ErrorKind, InputForm, parse_handle};
use tendot_proto::HandleValue;
use tendot_proto::record::HandleRecord;

use super::check::looks_like_url;
use super::source::ImportSource;
use super::{ImportItem, ItemSink};
use crate::CliError;
use crate::csv::{CsvReader, MAX_ROW_BYTES};
use crate::terminal::quote_input;

/// Delimiters that are recognized.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// Header names of the column with the names.
const NAME_HEADERS: [&[u8]; 3] = [b"name", b"doi", b"handle"];

/// Header name of the column with the URLs.
const URL_HEADER: &[u8] = b"url";

/// Positions of the columns.
struct Columns {
    name: usize,
    url: usize,
    count: usize,
}

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, mut reader) = source.into_parts();
    let mut first_line = Vec::new();
    (&mut reader)
        .take(MAX_ROW_BYTES as u64)
        .read_until(b'\n', &mut first_line)
        .map_err(|error| CliError::io(format!("cannot read {name}"), &error))?;
    let delimiter = detect_delimiter(&first_line);
    let mut rows = CsvReader::new(name.clone(), Cursor::new(first_line).chain(reader), delimiter);
    let mut columns = Columns { name: 0, url: 1, count: 2 };
    let mut is_first = true;
    while let Some(row) = rows.next_row()? {
        let item = match row.fields {
            Ok(fields) if std::mem::take(&mut is_first) && is_header(&fields) => {
                columns = Columns::from_header(&fields, &name)?;
                columns.ignored(&fields)
            }
            Ok(fields) if fields.iter().all(Vec::is_empty) => None,
            Ok(fields) => Some(columns.record(fields).map_or_else(ImportItem::Refused, decode_name)),
            Err(reason) => Some(ImportItem::Refused(reason)),
        };
        is_first = false;
        item.map_or(Ok(()), |item| take(row.line, item))?;
    }
    Ok(())
}

/// Delimiter of the header row, or the one that separates a name and a URL; a comma if there is none.
fn detect_delimiter(first_line: &[u8]) -> u8 {
    let fields = |delimiter: u8| {
        let fields = first_line.split(move |byte| *byte == delimiter);
        fields.map(|field| unquote(field.trim_ascii()).to_vec()).collect::<Vec<_>>()
    };
    let separates = |delimiter: &u8| {
        let fields = fields(*delimiter);
        is_header(&fields) && fields.len() > 1 || matches!(&*fields, [_, url] if looks_like_url(url))
    };
    DELIMITERS.into_iter().find(separates).unwrap_or(b',')
}

fn unquote(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}

fn is_header(row: &[Vec<u8>]) -> bool {
    row.iter().any(|field| is_name_header(field) || is_url_header(field))
}

fn is_name_header(field: &[u8]) -> bool {
    NAME_HEADERS.iter().any(|header| field.trim_ascii().eq_ignore_ascii_case(header))
}

fn is_url_header(field: &[u8]) -> bool {
    field.trim_ascii().eq_ignore_ascii_case(URL_HEADER)
}

impl Columns {
    fn from_header(header: &[Vec<u8>], source: &str) -> Result<Self, CliError> {
        let only = |what: &str, is_column: fn(&[u8]) -> bool| {
            let mut found = (0..).zip(header).filter(|(_, field)| is_column(field)).map(|(index, _)| index);
            match (found.next(), found.next()) {
                (Some(index), None) => Ok(index),
                (first, _) => {
                    let why = if first.is_none() { "no" } else { "more than one" };
                    Err(CliError::new(format!("the header row of {source} has {why} column `{what}`"))
                        .with_hint("columns are `name` (or `doi`, `handle`) and `url`; others are ignored"))
                }
            }
        };
        Ok(Self {
            name: only("name", is_name_header)?,
            url: only("url", is_url_header)?,
            count: header.len(),
        })
    }

    /// Note about columns that are not imported.
    fn ignored(&self, header: &[Vec<u8>]) -> Option<ImportItem> {
        let ignored = (0..).zip(header).filter(|(index, _)| *index != self.name && *index != self.url);
        let ignored: Vec<_> = ignored.map(|(_, field)| format!("`{}`", quote_input(field))).collect();
        (!ignored.is_empty()).then(|| ImportItem::Note(format!("ignored columns: {}", ignored.join(", "))))
    }

    fn record(&self, mut row: Vec<Vec<u8>>) -> Result<HandleRecord<'static>, String> {
        if row.len() != self.count {
            let expected = if self.count == 2 { " (name,url)" } else { "" };
            return Err(format!("expected {} fields{expected}, found {}", self.count, row.len()));
        }
        let mut field = |index: usize| row.get_mut(index).map(std::mem::take).unwrap_or_default();
        let (name, url) = (field(self.name), field(self.url));
        if url.is_empty() {
            return Err("missing URL".into());
        }
        Ok(HandleRecord { handle: name.into(), values: vec![HandleValue::with_data(1, "URL", url)] })
    }
}

/// Decodes a name in a written form, such as `https://doi.org/…` or `hdl:…`. Bare names are literal; other URLs are refused.
fn decode_name(record: HandleRecord<'static>) -> ImportItem {
    let Ok(text) = str::from_utf8(&record.handle) else { return ImportItem::Record(record) };
    match parse_handle(text) {
        Ok(parsed) if parsed.input_form() != InputForm::Bare => {
            let (form, name) = (parsed.input_form(), parsed.as_str().as_bytes().to_vec());
            let written = text.to_owned();
            let record = HandleRecord { handle: name.into(), ..record };
            ImportItem::DecodedRecord { record, written, form }
        }
        Err(error) if looks_like_url(&record.handle) => {
            let hint = match error.kind() {
                ErrorKind::UnknownForm => "; exchange the columns, or name them in a header row",
                _ => "",
            };
            ImportItem::Refused(format!("invalid name `{}`: {error}{hint}", quote_input(&record.handle)))
        }
        _ => ImportItem::Record(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_delimiter() {
        for (line, delimiter) in [
            ("", b','),
            ("name,url", b','),
            ("URL;Name;note,s", b';'),
            ("\"url\"\t\"doi\"", b'\t'),
            ("10.1/a,https://a/?b;c", b','),
            ("10.1/a;b,https://a/", b','),
            ("10.1/a,b;https://a/", b';'),
            ("10.1/a\thttps://a/?b,c;d", b'\t'),
            ("10.1/a,b", b','),
        ] {
            assert_eq!(detect_delimiter(line.as_bytes()) as char, delimiter as char, "{line}");
        }
    }
}
