//! Tables: the byte between fields, which ends a name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The separator of a table, told by the file's name, and for `.csv` by its first line; that of a pipe can't be looked
/// at without taking it away, so it is a comma there.
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

/// The one of the usual separators that occurs most in the first line, outside quotes; a comma if none does.
fn most_frequent_delimiter(text: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for &byte in text {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => break,
            _ if quoted => {}
            _ => {
                for (separator, count) in &mut counts {
                    *count += usize::from(byte == *separator);
                }
            }
        }
    }
    // The last of equals is taken, so the order is turned.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(separator, _)| *separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators() {
        for (text, separator) in [
            ("", b','),
            ("doi", b','),
            ("id,doi;x,year\n1;2;3;4;5", b','),
            ("id;doi;year", b';'),
            ("\"a,b,c\";doi;year", b';'),
            ("id\tdoi", b'\t'),
        ] {
            assert_eq!(most_frequent_delimiter(text.as_bytes()), separator, "{text}");
        }
    }
}
