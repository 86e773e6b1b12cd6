//! Access log: client text made safe for log lines.

use std::fmt::{self, Write as _};

/// Text from a client, truncated and escaped for logs.
pub(crate) struct LogSafe<'a>(pub(crate) &'a str);

const MAX_LOGGED_BYTES: usize = 1 << 10;

impl fmt::Display for LogSafe<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, c) in self.0.char_indices() {
            if at >= MAX_LOGGED_BYTES {
                return formatter.write_char('…');
            }
            match c {
                '"' | '\'' | '\\' => formatter.write_char(c)?,
                _ => write!(formatter, "{}", c.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped() {
        assert_eq!(LogSafe("/10.1000/\"é'例").to_string(), "/10.1000/\"é'例");
        assert_eq!(LogSafe("a\x1B[2J\r\n\u{202E}").to_string(), "a\\u{1b}[2J\\r\\n\\u{202e}");
        assert_eq!(LogSafe(&"é".repeat(9_000)).to_string().chars().count(), 513);
    }
}
