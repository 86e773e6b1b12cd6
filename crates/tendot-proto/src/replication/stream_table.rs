//! Handle.Net's `.dct` text format.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use crate::limits;

/// Table in Handle.Net's `.dct` text format.
///
/// `{ "a" = "b" }` is a table, `( "a" "b" )` a vector; both may occur wherever text may.
///
/// White space, commas and semicolons are separators. A backslash escapes the next character, but `\n` is a line feed.
/// Text without separators needs no quotes, and ends at the next separator: `{ a = 1 }` is a table, `{ a = 1}` is not.
/// Of duplicate names the last counts.
///
/// ```
/// use tendot_proto::replication::{StreamTable, StreamTableValue};
///
/// let table: StreamTable = r#"{ "sources" = ( { "last_txn_id" = "7" } ) }"#.parse()?;
/// assert!(matches!(table.0["sources"], StreamTableValue::Vector(_)));
/// assert_eq!(table.to_string().parse(), Ok(table));
///
/// let error = r#"{ "sources" ( ) }"#.parse::<StreamTable>().unwrap_err();
/// assert_eq!(error.to_string(), "expected `=` at byte 12, found `(`");
/// # Ok::<(), tendot_proto::replication::StreamTableError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StreamTable(pub BTreeMap<String, StreamTableValue>);

/// Value in a [`StreamTable`]: text, table or vector.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StreamTableValue {
    /// Text.
    Text(String),
    /// Table.
    Table(StreamTable),
    /// Vector.
    Vector(Vec<Self>),
}

impl StreamTable {
    /// Maximum nesting depth of tables and vectors.
    pub const MAX_DEPTH: usize = 16;

    /// Maximum length of the text in bytes.
    pub const MAX_LEN: usize = limits::MAX_FIELD_LEN;
}

/// Parse error of a [`StreamTable`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamTableError {
    /// Unexpected character.
    #[error("expected {expected} at byte {offset}, found `{found}`", found = found.escape_default())]
    UnexpectedCharacter {
        /// The character.
        found: char,
        /// Offset in bytes.
        offset: usize,
        /// Expected syntax.
        expected: &'static str,
    },
    /// Unexpected end of the text.
    #[error("unexpected end, expected {expected}")]
    UnexpectedEnd {
        /// Expected syntax.
        expected: &'static str,
    },
    /// Nesting too deep.
    #[error("nesting deeper than {max} at byte {offset}", max = StreamTable::MAX_DEPTH)]
    TooDeep {
        /// Offset of the table or vector that is too deep.
        offset: usize,
    },
    /// The text is too long.
    #[error("text of {len} bytes exceeds the limit of {max}", max = StreamTable::MAX_LEN)]
    TooLong {
        /// Length in bytes.
        len: usize,
    },
}

impl core::str::FromStr for StreamTable {
    type Err = StreamTableError;

    /// Parses a table. Trailing text is ignored, as in Handle.Net.
    fn from_str(text: &str) -> Result<Self, StreamTableError> {
        if text.len() > Self::MAX_LEN {
            return Err(StreamTableError::TooLong { len: text.len() });
        }
        let mut parser = StreamTableParser { text, offset: 0 };
        match parser.next_token() {
            Some('{') => parser.table(1),
            found => Err(parser.unexpected(found, "`{`")),
        }
    }
}

/// Recursive-descent parser.
struct StreamTableParser<'t> {
    text: &'t str,
    offset: usize,
}

impl StreamTableParser<'_> {
    fn table(&mut self, depth: usize) -> Result<StreamTable, StreamTableError> {
        let mut table = BTreeMap::new();
        loop {
            let name = match self.next_token() {
                Some('}') => return Ok(StreamTable(table)),
                Some('"') => self.quoted()?,
                Some(first) => self.bare_word(first),
                None => return Err(StreamTableError::UnexpectedEnd { expected: "a name or `}`" }),
            };
            match self.next_token() {
                Some('=') => {}
                found => return Err(self.unexpected(found, "`=`")),
            }
            match self.next_token() {
                Some(first) => drop(table.insert(name, self.value(first, depth)?)),
                None => return Err(StreamTableError::UnexpectedEnd { expected: "a value" }),
            }
        }
    }

    fn vector(&mut self, depth: usize) -> Result<Vec<StreamTableValue>, StreamTableError> {
        let mut vector = Vec::new();
        loop {
            match self.next_token() {
                Some(')') => return Ok(vector),
                Some(first) => vector.push(self.value(first, depth)?),
                None => return Err(StreamTableError::UnexpectedEnd { expected: "a value or `)`" }),
            }
        }
    }

    fn value(&mut self, first: char, depth: usize) -> Result<StreamTableValue, StreamTableError> {
        match first {
            '"' => Ok(StreamTableValue::Text(self.quoted()?)),
            '{' | '(' if depth == StreamTable::MAX_DEPTH => {
                Err(StreamTableError::TooDeep { offset: self.offset - 1 })
            }
            '{' => Ok(StreamTableValue::Table(self.table(depth + 1)?)),
            '(' => Ok(StreamTableValue::Vector(self.vector(depth + 1)?)),
            first => Ok(StreamTableValue::Text(self.bare_word(first))),
        }
    }

    fn quoted(&mut self) -> Result<String, StreamTableError> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some(other) => text.push(other),
                    None => return Err(StreamTableError::UnexpectedEnd { expected: "an escaped character" }),
                },
                Some(other) => text.push(other),
                None => return Err(StreamTableError::UnexpectedEnd { expected: "`\"`" }),
            }
        }
    }

    fn bare_word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(next) = self.rest().chars().next().filter(|next| *next != '=' && !is_separator(*next))
        {
            self.offset += next.len_utf8();
            word.push(next);
        }
        word
    }

    /// Next character that is not a separator.
    fn next_token(&mut self) -> Option<char> {
        loop {
            match self.next() {
                Some(next) if is_separator(next) => {}
                other => return other,
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    fn rest(&self) -> &str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    /// Error about the character that was just read.
    fn unexpected(&self, found: Option<char>, expected: &'static str) -> StreamTableError {
        match found {
            Some(found) => StreamTableError::UnexpectedCharacter {
                found,
                offset: self.offset - found.len_utf8(),
                expected,
            },
            None => StreamTableError::UnexpectedEnd { expected },
        }
    }
}

const fn is_separator(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\r' | '\t' | ',' | ';')
}

/// In lines, as Handle.Net writes it; sorted by name.
impl fmt::Display for StreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_table(self, 0, f)?;
        f.write_char('\n')
    }
}

fn write_table(table: &StreamTable, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("{\n")?;
    for (name, value) in &table.0 {
        indent(depth + 1, f)?;
        write_text(name, f)?;
        f.write_str(" = ")?;
        write_value(value, depth + 1, f)?;
        f.write_char('\n')?;
    }
    indent(depth, f)?;
    f.write_char('}')
}

fn write_value(value: &StreamTableValue, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        StreamTableValue::Text(text) => write_text(text, f),
        StreamTableValue::Table(table) => write_table(table, depth, f),
        StreamTableValue::Vector(vector) => {
            f.write_str("(\n")?;
            for value in vector {
                indent(depth + 1, f)?;
                write_value(value, depth + 1, f)?;
                f.write_char('\n')?;
            }
            indent(depth, f)?;
            f.write_char(')')
        }
    }
}

fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(character)?;
    }
    f.write_char('"')
}

fn indent(depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    (0..depth).try_for_each(|_| f.write_str("  "))
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn parses_tables() {
        check("{}", Ok("{}"));
        check(" ;,\n{\r\t} and more", Ok("{}"));
        check(r#"{"a"="b"}"#, Ok(r#"{ "a" = "b" }"#));
        check(r#"{"a"="b""c"="d"}"#, Ok(r#"{ "a" = "b" "c" = "d" }"#));
        check(r#"{a = b, c = d; }"#, Ok(r#"{ "a" = "b" "c" = "d" }"#));
        check(r#"{a=b }"#, Ok(r#"{ "a" = "b" }"#));
        check(r#"{"a" = x(y)} }"#, Ok(r#"{ "a" = "x(y)}" }"#));
        check(r#"{"\"\\\x\n" = "é"}"#, Ok("{ \"\\\"\\\\x\n\" = \"é\" }"));
        check(r#"{"a"=("b"(c )({}))}"#, Ok(r#"{ "a" = ( "b" ( "c" ) ( { } ) ) }"#));
        check(r#"{"a"="1" "a"="2"}"#, Ok(r#"{ "a" = "2" }"#));
        check("", Err("unexpected end, expected `{`"));
        check("é{", Err("expected `{` at byte 0, found `\\u{e9}`"));
        check("{", Err("unexpected end, expected a name or `}`"));
        check("{é", Err("unexpected end, expected `=`"));
        check("{\"é\" }", Err("expected `=` at byte 6, found `}`"));
        check("{a=", Err("unexpected end, expected a value"));
        check("{a=(b", Err("unexpected end, expected a value or `)`"));
        check("{a=1}", Err("unexpected end, expected a name or `}`"));
        check("{\"a", Err("unexpected end, expected `\"`"));
        check("{\"a\\", Err("unexpected end, expected an escaped character"));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        match (text.parse::<StreamTable>(), expected) {
            (Ok(table), Ok(expected)) => {
                assert_eq!(table, expected.parse().unwrap(), "{text}");
                assert_eq!(table.to_string().parse(), Ok(table), "{text}");
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected, "{text}"),
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }

    #[test]
    fn multi_line_output() {
        let table: StreamTable = r#"{ "b" = ( { } "c" ) "a" = "\"" }"#.parse().unwrap();
        let lines = "{\n  \"a\" = \"\\\"\"\n  \"b\" = (\n    {\n    }\n    \"c\"\n  )\n}\n";
        assert_eq!(table.to_string(), lines);
    }

    #[test]
    fn limits() {
        let deep = |depth| std::format!("{{a={}{}}}", "(".repeat(depth), ")".repeat(depth));
        assert!(deep(StreamTable::MAX_DEPTH - 1).parse::<StreamTable>().is_ok());
        let error = deep(100_000).parse::<StreamTable>().unwrap_err();
        assert_eq!(error, StreamTableError::TooDeep { offset: 3 + StreamTable::MAX_DEPTH - 1 });
        let long = " ".repeat(StreamTable::MAX_LEN + 1);
        assert_eq!(long.parse::<StreamTable>(), Err(StreamTableError::TooLong { len: long.len() }));
    }
}
