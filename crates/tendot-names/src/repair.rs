//! Mending a field that should hold one name.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::percent::encoded_offset;
use crate::{Doi, DoiBuf, DoiOrShortDoi, Extractor, Parser};

/// Result of [`repair`]: the DOI and the text removed around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairedDoi<'a> {
    /// The name, or shortDOI.
    pub target: DoiOrShortDoi<'a>,
    /// What stood before the name and is not part of it.
    pub before: Cow<'a, str>,
    /// What stood after the name and is not part of it.
    pub after: Cow<'a, str>,
}

/// Extracts the DOI from a field that should hold one, and removes known damage: punctuation, publisher tails, appended
/// identifiers and annotations.
///
/// This is a guess unless a resolver confirms it: …
///
/// Without asking a resolver this is a guess: `/full` or a final full stop can be part of a name.
///
/// ```
/// use tendot_names::repair;
///
/// let repaired = repair("10.1126/science.1255642.pmid:26068859").unwrap();
/// assert_eq!(repaired.target.as_str(), "10.1126/science.1255642");
/// assert_eq!(repaired.after, ".pmid:26068859");
/// assert!(repair("not a doi").is_none());
/// ```
pub fn repair(field: &str) -> Option<RepairedDoi<'_>> {
    let extractor = Extractor { labelled: true, ..Extractor::new() };
    let mended = remove_html_breaks(field);
    let found = extractor.find_iter(mended.as_bytes()).next();
    let Some(found) = found else {
        let target = Parser::lenient().parse(field).ok()?.into_identifier();
        let is_more_than_punctuation =
            target.as_str().split('/').skip(1).any(|part| part.contains(char::is_alphanumeric));
        let (before, after) = (Cow::Borrowed(""), Cow::Borrowed(""));
        return is_more_than_punctuation.then_some(RepairedDoi { target, before, after });
    };
    let name = trim_field_tail(found.name.as_str());
    let raw = mended.get(found.span.clone())?;
    let end = if name.len() == found.name.as_str().len() {
        found.span.end
    } else {
        // What was cut off may have been encoded.
        found.span.start + encoded_offset(raw, name.len())
    };
    let (before, after) = match &mended {
        Cow::Borrowed(field) => (
            Cow::Borrowed(field.get(..found.span.start)?),
            Cow::Borrowed(field.get(end..).unwrap_or_default()),
        ),
        Cow::Owned(field) => {
            let (before, after) = (field.get(..found.span.start)?, field.get(end..).unwrap_or_default());
            (Cow::Owned(String::from(before)), Cow::Owned(String::from(after)))
        }
    };
    let name = collapse_doubled(name);
    Doi::new(&name).or_else(|_| Doi::allowing_unassigned(&name, crate::SyntaxRules::Current)).ok()?;
    Some(RepairedDoi { target: DoiOrShortDoi::Doi(Cow::Owned(DoiBuf::from_validated(name))), before, after })
}

/// Line breaks of HTML, which nobody put there on purpose, and a doubled dot in the prefix.
fn remove_html_breaks(field: &str) -> Cow<'_, str> {
    let mut mended = Cow::Borrowed(field);
    for (wrong, right) in [("<br/>", ""), ("<br />", ""), ("<br>", ""), ("<wbr>", ""), ("10..", "10.")] {
        if mended.contains(wrong) {
            mended = Cow::Owned(mended.replace(wrong, right));
        }
    }
    mended
}

/// What is cut off in a field but not in running text: the year of publication, a lone `#`.
fn trim_field_tail(name: &str) -> &str {
    let year = |text: &str| {
        text.len() == 4
            && (text.starts_with("19") || text.starts_with("20"))
            && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((rest, last)) = name.rsplit_once('(')
        // Pages of the civil engineers, `128:12(1987)`, look the same.
        && !name.starts_with("10.1061/")
        && rest.split_once('/').is_some_and(|(_, suffix)| !suffix.is_empty())
        && year(last.strip_suffix(')').unwrap_or(last))
    {
        return rest;
    }
    match name.strip_suffix('#') {
        Some(rest) if !rest.ends_with(['-', '/']) => rest,
        _ => name,
    }
}

/// Doubled dots, and doubled underscores in Springer's chapter numbers, which TeX leaves behind.
fn collapse_doubled(name: &str) -> String {
    let name = if name.contains("...") { String::from(name) } else { name.replace("..", ".") };
    if name.starts_with("10.1007/978") { name.replace("__", "_") } else { name }
}
