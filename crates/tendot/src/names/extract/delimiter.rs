//! Field delimiter of a table (`.csv`, `.tsv`), which ends a name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Delimiters that are recognized, in order of preference.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Size of the sample from which the delimiter is detected.
const SAMPLE_BYTES: usize = 64 << 10;

/// Detects the delimiter from the file extension, and for `.csv` from the first records. A pipe cannot be read in advance: a
/// comma is assumed.
pub(super) fn detect_delimiter(path: &Path, is_regular: bool) -> io::Result<Option<u8>> {
    let extension = path.extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("tsv") {
        return Ok(Some(b'\t'));
    }
    if !extension.eq_ignore_ascii_case("csv") {
        return Ok(None);
    }
    let mut sample = Vec::new();
    if is_regular {
        File::open(path)?.take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    }
    Ok(Some(most_consistent_delimiter(&sample)))
}

/// Delimiter that occurs equally often in most records; a comma if there is none.
///
/// Of several, the one that occurs most often without a following space in the first record, or in all: in
/// `10.1000/abc,Smith; Doe; Roe` the comma. This is a heuristic.
fn most_consistent_delimiter(sample: &[u8]) -> u8 {
    let records = count_delimiters(sample);
    let score = |index: usize| {
        let mut counts: Vec<usize> =
            records.iter().map(|record| record.total[index]).filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let consistent_records = counts.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
        let in_first_record = records.first().map_or(0, |record| record.unspaced[index]);
        let in_all_records: usize = records.iter().map(|record| record.unspaced[index]).sum();
        (consistent_records, in_first_record, in_all_records)
    };
    // `max_by_key` returns the last maximum; reversed, the first delimiter wins.
    let best = (0..DELIMITERS.len()).rev().max_by_key(|index| score(*index));
    best.map_or(b',', |index| DELIMITERS[index])
}

/// Number of delimiters of each kind in a record, outside quotes.
#[derive(Clone, Copy, Default)]
struct DelimiterCounts {
    total: [usize; DELIMITERS.len()],
    /// Without those that a space follows, as in `Smith; Doe`.
    unspaced: [usize; DELIMITERS.len()],
}

/// Counts the delimiters of each record, without an incomplete record at the end of the sample.
fn count_delimiters(sample: &[u8]) -> Vec<DelimiterCounts> {
    let text = sample.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(sample);
    let mut records = Vec::new();
    let mut record = DelimiterCounts::default();
    let (mut is_quoted, mut is_field_start, mut is_empty) = (false, true, true);
    for (position, &byte) in text.iter().enumerate() {
        let delimiter = DELIMITERS.iter().position(|delimiter| *delimiter == byte);
        match byte {
            // A quote opens a quoted field only at its start (RFC 4180 section 2); a doubled one closes and opens it.
            b'"' if is_quoted || is_field_start || text[position - 1] == b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'\n' => {
                if !is_empty {
                    records.push(std::mem::take(&mut record));
                }
                (is_field_start, is_empty) = (true, true);
                continue;
            }
            b'\r' => continue,
            _ => {
                if let Some(index) = delimiter {
                    record.total[index] += 1;
                    record.unspaced[index] += usize::from(text.get(position + 1) != Some(&b' '));
                }
            }
        }
        is_field_start = delimiter.is_some() && !is_quoted;
        is_empty = false;
    }
    let is_complete = sample.len() < SAMPLE_BYTES || records.is_empty();
    if !is_empty && is_complete {
        records.push(record);
    }
    records
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
            // Without header
            ("10.1000/abc,Smith; Doe; Roe", b','),
            ("10.1000/abc,Smith;Doe;Roe\n10.1000/def,Li\n10.1000/ghi,Kim;Lee\n", b','),
            ("10.1000/abc,Smith; Doe; Roe\n10.1000/def,Smith; Doe; Roe\n", b','),
            ("10.1000/abc;1,5;2,5\n10.1000/def;2;3\n", b';'),
            // With decimal commas
            ("doi;value;price\n10.1000/abc;1,5;2,5\n10.1000/def;2,5;3,5\n", b';'),
            ("doi\tauthors\n10.1000/abc\tSmith, A.; Doe, B.\n10.1000/def\tLi, C.\n", b'\t'),
            // A quote inside a field opens nothing.
            ("doi,size\n10.1000/abc,5\" disk\n10.1000/def,x; y; z\n", b','),
            ("\u{FEFF}\"a;b\",\"c\"\"d;\"\r\n\r\n\"x;y;z\",1\r\n", b','),
        ] {
            assert_eq!(most_consistent_delimiter(text.as_bytes()) as char, delimiter as char, "{text}");
        }
        // The last record of the sample is incomplete.
        let mut large = "10.1000/abc,x\n".repeat(SAMPLE_BYTES / 14);
        large.push_str(&"10.1000/abc;x".repeat(2));
        large.truncate(SAMPLE_BYTES);
        assert_eq!(most_consistent_delimiter(large.as_bytes()), b',');
    }
}
