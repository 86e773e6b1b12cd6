//! CSV (RFC 4180): a strict reader with a maximum row size, and quoting of fields.

use std::io::{self, BufRead, Write};

use crate::CliError;

/// Maximum size of a row: the longest name and URL, and a margin.
pub(crate) const MAX_ROW_BYTES: usize = 2 << 20;

/// RFC 4180 reader that refuses malformed and overlong rows, and goes on with the next one.
pub(crate) struct CsvReader<R> {
    name: String,
    reader: R,
    delimiter: u8,
    line: u64,
}

/// Row and the line it begins at; `Err` has the reason why it is refused.
pub(crate) struct CsvRow {
    pub(crate) line: u64,
    pub(crate) fields: Result<Vec<Vec<u8>>, String>,
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
    /// Reader of the input with this name, which appears in errors.
    pub(crate) const fn new(name: String, reader: R, delimiter: u8) -> Self {
        Self { name, reader, delimiter, line: 1 }
    }

    /// Returns the next row; a malformed row is skipped to the end of its line.
    pub(crate) fn next_row(&mut self) -> Result<Option<CsvRow>, CliError> {
        let first_line = self.line;
        let (mut row, mut field, mut state) = (Vec::new(), Vec::new(), CsvState::FieldStart);
        let mut fault = None;
        let (mut size, mut is_empty) = (0_usize, true);
        loop {
            let byte = self.next_byte()?;
            is_empty &= byte.is_none();
            size += 1;
            if size > MAX_ROW_BYTES && fault.is_none() {
                fault = Some(format!("row exceeds {MAX_ROW_BYTES} bytes"));
            }
            match (state, byte) {
                (_, None) if is_empty => return Ok(None),
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
                (CsvState::FieldStart | CsvState::Unquoted | CsvState::QuoteInQuoted, Some(byte))
                    if byte == self.delimiter =>
                {
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
        let lines = self.line - first_line;
        let fault = fault.map(|fault: String| match lines {
            0 | 1 => fault,
            _ => format!("{fault}; row ends at line {}", first_line + lines - 1),
        });
        Ok(Some(CsvRow { line: first_line, fields: fault.map_or(Ok(row), Err) }))
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

/// Writes a field, quoted if necessary.
pub(crate) fn write_field(output: &mut impl Write, field: &[u8]) -> io::Result<()> {
    let is_special = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
    // Many readers trim unquoted spaces and skip empty lines.
    let is_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    if !field.iter().any(is_special) && !is_edge(field.first()) && !is_edge(field.last()) {
        return output.write_all(field);
    }
    write_quoted(output, field)
}

/// Writes a field that a spreadsheet program displays as text: a field that it would evaluate as a formula begins with `'`.
pub(crate) fn write_spreadsheet_field(output: &mut impl Write, field: &str) -> io::Result<()> {
    match field {
        "" => Ok(()),
        _ if field.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
            write_quoted(output, format!("'{field}").as_bytes())
        }
        _ => write_field(output, field.as_bytes()),
    }
}

fn write_quoted(output: &mut impl Write, field: &[u8]) -> io::Result<()> {
    output.write_all(b"\"")?;
    for (number, part) in field.split(|byte| *byte == b'"').enumerate() {
        if number > 0 {
            output.write_all(b"\"\"")?;
        }
        output.write_all(part)?;
    }
    output.write_all(b"\"")
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
        let mut rows = CsvReader::new("text".into(), text.as_bytes(), b',');
        for (line, row) in expected {
            let found = rows.next_row().unwrap().unwrap();
            assert_eq!(found.line, *line, "{text}");
            let found = found.fields.map(|fields| {
                fields.into_iter().map(|field| String::from_utf8(field).unwrap()).collect::<Vec<_>>()
            });
            match (found, row) {
                (Ok(found), Ok(row)) => assert_eq!(found, *row, "{text}"),
                (Err(found), Err(reason)) => assert_eq!(found, *reason, "{text}"),
                (found, row) => panic!("{text}: {found:?} but {row:?}"),
            }
        }
        assert!(rows.next_row().unwrap().is_none(), "{text}");
    }

    #[test]
    fn quotes_fields() {
        let check = |field: &str, plain: &str, spreadsheet: &str| {
            let (mut written, mut guarded) = (Vec::new(), Vec::new());
            write_field(&mut written, field.as_bytes()).unwrap();
            write_spreadsheet_field(&mut guarded, field).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), plain);
            assert_eq!(String::from_utf8(guarded).unwrap(), spreadsheet);
        };
        check("10.1/a", "10.1/a", "10.1/a");
        check("10.1/a,b", "\"10.1/a,b\"", "\"10.1/a,b\"");
        check("a \"b\"", "\"a \"\"b\"\"\"", "\"a \"\"b\"\"\"");
        check("a\nb", "\"a\nb\"", "\"a\nb\"");
        check("=cmd()", "=cmd()", "\"'=cmd()\"");
        check(" a", "\" a\"", "\" a\"");
        check("", "\"\"", "");
    }
}
