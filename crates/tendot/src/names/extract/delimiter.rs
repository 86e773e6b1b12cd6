//! Field delimiter of a table (`.csv`, `.tsv`), which ends a name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Detects the delimiter from the file extension, and for `.csv` from the first line. The first line of a pipe cannot be read
/// in advance: a comma is assumed.
pub(super) fn detect_delimiter(path: &Path, is_regular: bool) -> io::Result<Option<u8>> {
    let extension = path.extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("tsv") {
        return Ok(Some(b'\t'));
    }
    if !extension.eq_ignore_ascii_case("csv") {
        return Ok(None);
    }
    let mut beginning = Vec::new();
    if is_regular {
        File::open(path)?.take(4096).read_to_end(&mut beginning)?;
    }
    Ok(Some(most_frequent_delimiter(&beginning)))
}

/// Most frequent of the common delimiters in the first line, outside quotes; a comma if there is none.
fn most_frequent_delimiter(text: &[u8]) -> u8 {
    let mut is_quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for &byte in text {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => break,
            _ if is_quoted => {}
            _ => {
                for (delimiter, count) in &mut counts {
                    *count += usize::from(byte == *delimiter);
                }
            }
        }
    }
    // `max_by_key` returns the last maximum; reversed, the first delimiter wins.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| *delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_delimiter() {
        for (text, delimiter) in [
            ("", b','),
            ("doi", b','),
            ("id,doi;x,year\n1;2;3;4;5", b','),
            ("id;doi;year", b';'),
            ("\"a,b,c\";doi;year", b';'),
            ("id\tdoi", b'\t'),
        ] {
            assert_eq!(most_frequent_delimiter(text.as_bytes()), delimiter, "{text}");
        }
    }
}
