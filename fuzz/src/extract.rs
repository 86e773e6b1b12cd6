//! Extraction: no input panics, results are ordered and valid, and incremental extraction gives the same.

use tendot_names::{Doi, ExtractStep, Extractor, IncrementalExtractor};

pub(crate) fn check(bytes: &[u8]) {
    let Some((&settings, text)) = bytes.split_first() else { return };
    let extractor = Extractor::new()
        .join_lines(settings & 1 != 0)
        .keep_publisher_tails(settings & 2 != 0)
        .field_separator((settings & 4 != 0).then_some(b','))
        .max_len(if settings & 8 != 0 { 32 } else { 2048 });
    let mut expected = Vec::new();
    let mut last_end = 0;
    for found in extractor.find_iter(text) {
        assert!(found.span.start >= last_end && found.span.end <= text.len());
        let checked = Doi::new(found.doi.as_str());
        assert!(checked.is_ok() || checked.unwrap_err().kind().code() == "unassigned-character");
        last_end = found.span.end;
        expected.push((found.doi.to_string(), found.span));
    }
    let size = usize::from(settings >> 4) * 7 + 1;
    assert_eq!(extract_incrementally(extractor.incremental(), text, size), expected, "in chunks of {size}");
}

fn extract_incrementally(
    mut scan: IncrementalExtractor,
    text: &[u8],
    size: usize,
) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found_names = Vec::new();
    let (mut buffer, mut base, mut consumed) = (Vec::new(), 0, 0);
    loop {
        let end = (consumed + size).min(text.len());
        buffer.extend_from_slice(&text[consumed..end]);
        consumed = end;
        loop {
            match scan.next_doi(&buffer, consumed == text.len()) {
                ExtractStep::Found(found) => {
                    let span = found.span.start + base..found.span.end + base;
                    found_names.push((found.doi.to_string(), span));
                }
                ExtractStep::NeedMoreInput { keep_from } => {
                    buffer.drain(..keep_from);
                    scan.consume(keep_from);
                    base += keep_from;
                    break;
                }
                ExtractStep::End => return found_names,
            }
        }
    }
}
