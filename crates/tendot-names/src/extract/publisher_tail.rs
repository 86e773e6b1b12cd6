//! Trims publisher tails (`/full`, `.pdf`) and annotations (`[CrossRef]`).

use super::trim::trim_punctuation;
use crate::ascii_case::{ends_with_ignore_case, find_ignore_case, starts_with_ignore_case};

/// Publisher tails: endings of publisher URLs, trimmed everywhere.
const PUBLISHER_TAILS: [&str; 14] = [
    "/abstract",
    "/epdf",
    "/full",
    "/fulltext",
    "/full-text",
    "/meta",
    "/pdf",
    "/pdfdirect",
    "/suppinfo",
    "/summary",
    ".pdf",
    "/html",
    ".full",
    ".full-text",
];

/// Publisher tails that are trimmed only in a URL.
const URL_TAILS: [&str; 32] = [
    "/citation",
    "/citations",
    "/citedby",
    "/download",
    "/epub",
    "/figures",
    "/keywords",
    "/metrics",
    "/pdfft",
    "/reader",
    "/references",
    "/related",
    "/short",
    "/supplementary-material",
    "/tables",
    "/viewer",
    "/xml",
    ".abstract",
    ".article-info",
    ".epub",
    ".extract",
    ".figures-only",
    ".htm",
    ".html",
    ".long",
    ".short",
    ".xml",
    "+html",
    ".supplementary-material",
    ".svg",
    ".png",
    ".jpg",
];

/// Annotations appended to a DOI; trimmed with all text after them.
const ANNOTATIONS: [&str; 9] = [
    ".....",
    ";jsessionid",
    "#sthash",
    "[doi]",
    ")accessed",
    ")lastaccessed",
    "articlepublishedonline",
    "epubaheadofprint",
    "/-/dc",
];

/// Which tails are trimmed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TailScope {
    /// After a label, scheme or proxy URL that the standards define: only words in square brackets, which a URI cannot have.
    StandardForm,
    /// In text: publisher tails and all annotations.
    Text,
    /// In a URL of another host, or in a field: also the tails in `URL_TAILS`.
    Url,
}

/// Maximum number of tails trimmed from one DOI, so that the work is linear.
pub(super) const MAX_TAIL_CUTS: usize = 8;

/// Trims publisher tails and annotations from the suffix, which starts at `suffix_start`.
pub(super) fn trim_publisher_tails(text: &str, suffix_start: usize, scope: TailScope, opener: u8) -> &str {
    let mut rest = text;
    for _ in 0..MAX_TAIL_CUTS {
        let suffix_len = rest.get(suffix_start..).and_then(|suffix| trim_one_tail(suffix, rest, scope));
        let Some(suffix_len) = suffix_len else { break };
        rest = trim_punctuation(rest.get(..suffix_start + suffix_len).unwrap_or_default(), opener);
    }
    rest
}

/// Length of `suffix` after one tail is trimmed; `None` if it has none.
fn trim_one_tail(suffix: &str, whole: &str, scope: TailScope) -> Option<usize> {
    let bytes = suffix.as_bytes();
    if scope == TailScope::StandardForm {
        return if suffix.ends_with(']') { before_bracketed_annotation(suffix) } else { None };
    }
    let in_url = scope == TailScope::Url;
    let last = *bytes.last()? | 0x20;
    // Tails do not end in a digit, but most suffixes do.
    if last.is_ascii_alphabetic() || *bytes.last()? == b']' {
        let url_tails = if in_url { &URL_TAILS[..] } else { &[] };
        let tail = PUBLISHER_TAILS
            .iter()
            .chain(url_tails)
            .filter(|tail| tail.as_bytes().last() == Some(&last))
            .filter(|tail| bytes.len() > tail.len() && ends_with_ignore_case(bytes, tail.as_bytes()))
            .map(|tail| tail.len())
            .max();
        if let Some(tail) = tail {
            return Some(bytes.len() - tail);
        }
        if let Some(len) = before_bracketed_annotation(suffix) {
            return Some(len);
        }
    }
    if in_url {
        const URL_FOLDERS: [&[u8]; 4] =
            [b"/suppl_file/", b"/asset/", b"/transform/", b"/type/journal_article"];
        let folder = URL_FOLDERS.into_iter().filter_map(|folder| find_ignore_case(bytes, folder)).min();
        if let Some(offset) = folder.and_then(nonzero) {
            return Some(offset);
        }
    }
    before_preprint_version(suffix, whole).or_else(|| before_annotation(bytes))
}

/// Length before a bracketed annotation: `[CrossRef]`, or the first word of `[Google Scholar]` or `(registering DOI)`.
///
/// SICI codes have text after their brackets.
fn before_bracketed_annotation(suffix: &str) -> Option<usize> {
    let (open, annotation) = match suffix.strip_suffix(']') {
        Some(inner) => {
            let open = inner.rfind('[')?;
            (open, inner.get(open + 1..)?)
        }
        None => {
            let open = suffix.rfind(['[', '('])?;
            (open, suffix.get(open + 1..)?)
        }
    };
    let is_closed = suffix.ends_with(']');
    let is_word = annotation.len() > if is_closed { 0 } else { 1 }
        && annotation.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_word { nonzero(open) } else { None }
}

/// Length before the version that bioRxiv and medRxiv append in URLs: `10.1101/097196v2`.
fn before_preprint_version(suffix: &str, whole: &str) -> Option<usize> {
    if !whole.starts_with("10.1101/") && !whole.starts_with("10.64898/") {
        return None;
    }
    let before = suffix.trim_end_matches(|c: char| c.is_ascii_digit());
    let version_len = suffix.len() - before.len();
    let unversioned = before.strip_suffix('v')?;
    ((1..=2).contains(&version_len) && unversioned.ends_with(|c: char| c.is_ascii_digit()))
        .then_some(unversioned.len())
}

/// Length before an annotation.
fn before_annotation(suffix: &[u8]) -> Option<usize> {
    if !may_contain_annotation(suffix) {
        return None;
    }
    let starts_annotation = |offset: &usize| {
        let rest = suffix.get(*offset..).unwrap_or_default();
        let first = rest.first().map(u8::to_ascii_lowercase);
        matches!(first, Some(b'.' | b';' | b'#' | b'[' | b')' | b'/' | b'a' | b'e'))
            && ANNOTATIONS.iter().any(|annotation| starts_with_ignore_case(rest, annotation.as_bytes()))
    };
    let offset =
        (1..suffix.len()).find(starts_annotation).or_else(|| find_epub_annotation(suffix)).or_else(|| {
            let host = find_ignore_case(suffix, b".sagepub.com")?;
            let before = suffix.get(..host)?;
            let letters = before.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
            Some(host - letters)
        })?;
    nonzero(offset)
}

/// Whether an annotation is possible: false for most suffixes.
///
/// Every annotation contains one of these byte sequences. Iterations are independent, so the loop is vectorized.
fn may_contain_annotation(suffix: &[u8]) -> bool {
    let second = suffix.get(1..).unwrap_or_default();
    let third = suffix.get(2..).unwrap_or_default();
    suffix.iter().zip(second).zip(third).fold(false, |found, ((a, b), c)| {
        let (first, second, third) = (a | 0x20, b | 0x20, c | 0x20);
        let word = (first == b'p') & (second == b'u') & (third == b'b')
            | (first == b'e') & (second == b'c') & (third == b'o')
            | (first == b'.') & (second == b'.') & (third == b'.');
        let mark = (*a == b'#') & (second == b's')
            | (*a == b'[') & (second == b'd')
            | (*a == b';') & (second == b'j')
            | (*a == b'/') & (*b == b'-') & (*c == b'/')
            | (*a == b')') & ((second == b'a') | (second == b'l'));
        found | word | mark
    })
}

/// Offset of `.epub`, `(epub2010` or `.ecollection2014` at the end.
fn find_epub_annotation(suffix: &[u8]) -> Option<usize> {
    for word in [&b"epub"[..], b"ecollection"] {
        let Some(offset) = find_ignore_case(suffix, word) else { continue };
        let is_separated = offset > 0 && suffix.get(offset - 1).is_some_and(|byte| b".([;,".contains(byte));
        let rest = suffix.get(offset + word.len()..).unwrap_or_default();
        if is_separated && rest.iter().all(|byte| byte.is_ascii_alphanumeric()) {
            return Some(offset);
        }
    }
    None
}

/// `None` for 0: at least one character of the suffix remains.
fn nonzero(offset: usize) -> Option<usize> {
    (offset > 0).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_publisher_tails() {
        check("10.1002/asi.20001/full", "10.1002/asi.20001");
        check("10.1111/j.1540-6261.2005.00815.x/pdf", "10.1111/j.1540-6261.2005.00815.x");
        check("10.1000/a/full/pdf", "10.1000/a");
        check("10.1101/097196v2.full.pdf", "10.1101/097196");
        check("10.1101/2020.03.05.20031898v1", "10.1101/2020.03.05.20031898");
        check("10.1002/pds.1348[doi].eng", "10.1002/pds.1348");
        check("10.1021/pr500421v(epubaheadofprint)", "10.1021/pr500421v");
        check("10.1021/cr040695c.....106,1077(2006)", "10.1021/cr040695c");
        check("10.1177/0261018315588894csp.sagepub.com", "10.1177/0261018315588894");
        check("10.1371/journal.pone.0174717.ecollection2017", "10.1371/journal.pone.0174717");
        // DOIs that only look as if they had a tail
        for doi in [
            "10.2210/pdb2br8/pdb",
            "10.5194/tc-7-419-2013-supplement",
            "10.1130/0016-7606(1949)60[439:TSM]2.0.CO;2",
            "10.1107/s160053680902251x/lh2832sup0.html",
            "10.1000/full",
            "10.6084/m9.figshare.12345.v2",
        ] {
            check(doi, doi);
        }
    }

    #[test]
    fn keeps_tails_in_standard_forms() {
        for (text, expected) in [
            ("10.1000/182/full", "10.1000/182/full"),
            ("10.1101/097196v2.full.pdf", "10.1101/097196v2.full.pdf"),
            ("10.1000/182;jsessionid=1", "10.1000/182;jsessionid=1"),
            ("10.1000/182.epub", "10.1000/182.epub"),
            ("10.1000/182(print", "10.1000/182(print"),
            ("10.1000/182[CrossRef][PubMed]", "10.1000/182"),
            ("10.1000/182.....25", "10.1000/182.....25"),
        ] {
            assert_eq!(trim_publisher_tails(text, 8, TailScope::StandardForm, 0), expected);
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let scope = if text.contains(".full.") { TailScope::Url } else { TailScope::Text };
        let suffix_start = text.find('/').unwrap() + 1;
        assert_eq!(trim_publisher_tails(text, suffix_start, scope, 0), expected);
    }
}
