//! CSV input with the columns name and URL (RFC 4180).

use std::io::BufRead;

use tendot_proto::HandleValue;
use tendot_proto::record::HandleRecord;

use super::source::ImportSource;
use super::{ImportItem, ItemSink};
use crate::CliError;

/// Maximum size of a row: the longest name and URL, and a margin.
const MAX_ROW_BYTES: usize = 2 << 20;

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, reader) = source.into_parts();
    let mut rows = CsvReader { name, reader, line: 1 };
    let mut is_first = true;
    while let Some((line, row)) = rows.next_row()? {
        let is_header = std::mem::take(&mut is_first) && row.as_ref().is_ok_and(|row| is_header(row));
        let item = match row {
            Ok(row) if is_header || row.iter().all(Vec::is_empty) => continue,
            Ok(row) => record_from_row(row).map_or_else(ImportItem::Refused, ImportItem::Record),
            Err(reason) => ImportItem::Refused(reason),
        };
        take(line, item)?;
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

/// RFC 4180 reader with a maximum row length.
struct CsvReader<R> {
    name: String,
    reader: R,
    line: u64,
}

/// Parser state.
#[derive(Clone, Copy, Eq, PartialEq)]
enum CsvState {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: the end of the field, or the first half of an escaped quote.
    QuoteInQuoted,
}

impl<R: BufRead> CsvReader<R> {
    /// Returns the next row and the line it begins at; a malformed row is skipped to the end of its line.
    #[expect(clippy::type_complexity, reason = "a line and either a row or a reason")]
    fn next_row(&mut self) -> Result<Option<(u64, Result<Vec<Vec<u8>>, String>)>, CliError> {
        let began = self.line;
        let (mut row, mut field, mut state) = (Vec::new(), Vec::new(), CsvState::FieldStart);
        let mut fault = None;
        let (mut size, mut any) = (0_usize, false);
        loop {
            let byte = self.next_byte()?;
            any |= byte.is_some();
            size += 1;
            if size > MAX_ROW_BYTES && fault.is_none() {
                fault = Some(format!("row exceeds {MAX_ROW_BYTES} bytes"));
            }
            match (state, byte) {
                (_, None) if !any => return Ok(None),
                (CsvState::Quoted, None) => {
                    fault.get_or_insert_with(|| "unclosed quote".into());
                    break;
                }
                (CsvState::FieldStart | CsvState::Unquoted | CsvState::QuoteInQuoted, None | Some(b'\n')) => {
                    break;
                }
                // Part of a CRLF, or a stray CR.
                (CsvState::FieldStart | CsvState::Unquoted | CsvState::QuoteInQuoted, Some(b'\r')) => {
                    if self.peek()? != Some(b'\n') {
                        fault.get_or_insert_with(|| "carriage return outside quotes".into());
                    }
                }
                (CsvState::FieldStart | CsvState::Unquoted | CsvState::QuoteInQuoted, Some(b',')) => {
                    row.push(std::mem::take(&mut field));
                    state = CsvState::FieldStart;
                }
                (CsvState::FieldStart, Some(b'"')) => state = CsvState::Quoted,
                (CsvState::Quoted, Some(b'"')) => state = CsvState::QuoteInQuoted,
                (CsvState::QuoteInQuoted, Some(b'"')) => {
                    field.push(b'"');
                    state = CsvState::Quoted;
                }
                (CsvState::QuoteInQuoted, Some(_)) => {
                    fault.get_or_insert_with(|| "text after closing quote".into());
                    state = CsvState::Unquoted;
                }
                (CsvState::FieldStart | CsvState::Unquoted, Some(byte)) => {
                    state = CsvState::Unquoted;
                    if fault.is_none() {
                        field.push(byte);
                    }
                }
                (CsvState::Quoted, Some(byte)) => {
                    if fault.is_none() {
                        field.push(byte);
                    }
                }
            }
        }
        row.push(field);
        // An unbalanced quote may have swallowed valid rows.
        let lines = self.line - began;
        let fault = fault.map(|fault: String| match lines {
            0 | 1 => fault,
            _ => format!("{fault}; row ends at line {}", began + lines - 1),
        });
        Ok(Some((began, fault.map_or(Ok(row), Err))))
    }

    fn peek(&mut self) -> Result<Option<u8>, CliError> {
        let Self { reader, name, .. } = self;
        let buffer =
            reader.fill_buf().map_err(|error| CliError::io(format!("cannot read {name}"), &error))?;
        Ok(buffer.first().copied())
    }

    fn next_byte(&mut self) -> Result<Option<u8>, CliError> {
        let byte = self.peek()?;
        self.reader.consume(usize::from(byte.is_some()));
        self.line += u64::from(byte == Some(b'\n'));
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rows() {
        check("a,b\nc,d", &[(1, Ok(&["a", "b"])), (2, Ok(&["c", "d"]))]);
        check("a,b\r\n\r\n", &[(1, Ok(&["a", "b"])), (2, Ok(&[""]))]);
        check("\"a,\"\"\n\",b\nc,", &[(1, Ok(&["a,\"\n", "b"])), (3, Ok(&["c", ""]))]);
        check("a\"b,c", &[(1, Ok(&["a\"b", "c"]))]);
        check("\"a\"b,c\nd,e", &[(1, Err("text after closing quote")), (2, Ok(&["d", "e"]))]);
        check("\"a,b\n", &[(1, Err("unclosed quote"))]);
        check("\"a,b\nc,d\ne,f\n", &[(1, Err("unclosed quote; row ends at line 3"))]);
        check("a\rb,c", &[(1, Err("carriage return outside quotes"))]);
    }

    #[track_caller]
    fn check(text: &str, expected: &[(u64, Result<&[&str], &str>)]) {
        let mut rows = CsvReader { name: "text".into(), reader: text.as_bytes(), line: 1 };
        for (line, row) in expected {
            let (found_line, found) = rows.next_row().unwrap().unwrap();
            let found = found.map(|row| {
                row.into_iter().map(|field| String::from_utf8(field).unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(found_line, *line, "{text}");
            match (found, row) {
                (Ok(found), Ok(row)) => assert_eq!(found, *row, "{text}"),
                (Err(found), Err(reason)) => assert_eq!(found, *reason, "{text}"),
                (found, row) => panic!("{text}: {found:?} but {row:?}"),
            }
        }
        assert!(rows.next_row().unwrap().is_none(), "{text}");
    }
}
