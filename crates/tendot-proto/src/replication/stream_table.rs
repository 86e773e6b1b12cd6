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
/// assert_eq!(error.to_string(), "`(` at byte 12, where `=` should be");
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
    pub const MAX_LEN: usize = limits::FIELD;
}

/// Parse error of a [`StreamTable`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamTableError {
    /// Unexpected character.
    #[error("`{found}` at byte {at}, where {expected} should be", found = found.escape_default())]
    Found {
        /// The character.
        found: char,
        /// Offset in bytes.
        at: usize,
        /// Expected syntax.
        expected: &'static str,
    },
    /// Unexpected end of the text.
    #[error("the text ends where {expected} should be")]
    End {
        /// Expected syntax.
        expected: &'static str,
    },
    /// Nesting too deep.
    #[error("more than {limit} tables and vectors in each other at byte {at}", limit = StreamTable::MAX_DEPTH)]
    TooDeep {
        /// Offset of the table or vector that is too deep.
        at: usize,
    },
    /// The text is too long.
    #[error("the text has {length} bytes, at most {limit} are allowed", limit = StreamTable::MAX_LEN)]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
}

impl core::str::FromStr for StreamTable {
    type Err = StreamTableError;

    /// Parses a table. Trailing text is ignored, as in Handle.Net.
    fn from_str(text: &str) -> Result<Self, StreamTableError> {
        if text.len() > Self::MAX_LEN {
            return Err(StreamTableError::TooLong { length: text.len() });
        }
        let mut parser = StreamTableParser { text, at: 0 };
        match parser.next_token() {
            Some('{') => parser.table(1),
            found => Err(parser.unexpected(found, "`{`")),
        }
    }
}

struct StreamTableParser<'t> {
    text: &'t str,
    at: usize,
}

impl StreamTableParser<'_> {
    fn table(&mut self, depth: usize) -> Result<StreamTable, StreamTableError> {
        let mut table = BTreeMap::new();
        loop {
            let name = match self.next_token() {
                Some('}') => return Ok(StreamTable(table)),
                Some('"') => self.quoted()?,
                Some(first) => self.bare_word(first),
                None => return Err(StreamTableError::End { expected: "a name or `}`" }),
            };
            match self.next_token() {
                Some('=') => {}
                found => return Err(self.unexpected(found, "`=`")),
            }
            match self.next_token() {
                Some(first) => drop(table.insert(name, self.value(first, depth)?)),
                None => return Err(StreamTableError::End { expected: "a value" }),
            }
        }
    }

    fn vector(&mut self, depth: usize) -> Result<Vec<StreamTableValue>, StreamTableError> {
        let mut vector = Vec::new();
        loop {
            match self.next_token() {
                Some(')') => return Ok(vector),
                Some(first) => vector.push(self.value(first, depth)?),
                None => return Err(StreamTableError::End { expected: "a value or `)`" }),
            }
        }
    }

    fn value(&mut self, first: char, depth: usize) -> Result<StreamTableValue, StreamTableError> {
        match first {
            '"' => Ok(StreamTableValue::Text(self.quoted()?)),
            '{' | '(' if depth == StreamTable::MAX_DEPTH => {
                Err(StreamTableError::TooDeep { at: self.at - 1 })
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
                    None => return Err(StreamTableError::End { expected: "what a backslash stands for" }),
                },
                Some(other) => text.push(other),
                None => return Err(StreamTableError::End { expected: "`\"`" }),
            }
        }
    }

    fn bare_word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(next) = self.rest().chars().next().filter(|next| *next != '=' && !parts(*next)) {
            self.at += next.len_utf8();
            word.push(next);
        }
        word
    }

    /// Next character that is not a separator.
    fn next_token(&mut self) -> Option<char> {
        loop {
            match self.next() {
                Some(next) if parts(next) => {}
                other => return other,
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Error about the character that was just read.
    fn unexpected(&self, found: Option<char>, expected: &'static str) -> StreamTableError {
        match found {
            Some(found) => StreamTableError::Found { found, at: self.at - found.len_utf8(), expected },
            None => StreamTableError::End { expected },
        }
    }
}

const fn parts(character: char) -> bool {
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
    fn texts() {
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
        check("", Err("the text ends where `{` should be"));
        check("é{", Err("`\\u{e9}` at byte 0, where `{` should be"));
        check("{", Err("the text ends where a name or `}` should be"));
        check("{é", Err("the text ends where `=` should be"));
        check("{\"é\" }", Err("`}` at byte 6, where `=` should be"));
        check("{a=", Err("the text ends where a value should be"));
        check("{a=(b", Err("the text ends where a value or `)` should be"));
        check("{a=1}", Err("the text ends where a name or `}` should be"));
        check("{\"a", Err("the text ends where `\"` should be"));
        check("{\"a\\", Err("the text ends where what a backslash stands for should be"));
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
    fn written_in_lines() {
        let table: StreamTable = r#"{ "b" = ( { } "c" ) "a" = "\"" }"#.parse().unwrap();
        let lines = "{\n  \"a\" = \"\\\"\"\n  \"b\" = (\n    {\n    }\n    \"c\"\n  )\n}\n";
        assert_eq!(table.to_string(), lines);
    }

    #[test]
    fn bounds() {
        let deep = |depth| std::format!("{{a={}{}}}", "(".repeat(depth), ")".repeat(depth));
        assert!(deep(StreamTable::MAX_DEPTH - 1).parse::<StreamTable>().is_ok());
        let error = deep(100_000).parse::<StreamTable>().unwrap_err();
        assert_eq!(error, StreamTableError::TooDeep { at: 3 + StreamTable::MAX_DEPTH - 1 });
        let long = " ".repeat(StreamTable::MAX_LEN + 1);
        assert_eq!(long.parse::<StreamTable>(), Err(StreamTableError::TooLong { length: long.len() }));
    }
}
