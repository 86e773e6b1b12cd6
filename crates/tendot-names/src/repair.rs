//! Repair of a field that holds one DOI.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::percent::encoded_offset;
use crate::{Doi, DoiBuf, DoiOrShortDoi, Extractor, Parser};

/// Result of [`repair`]: the DOI and the text removed around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairedDoi<'a> {
    /// The DOI or shortDOI.
    pub identifier: DoiOrShortDoi<'a>,
    /// Text removed before the DOI.
    pub text_before: Cow<'a, str>,
    /// Text removed after the DOI.
    pub text_after: Cow<'a, str>,
}

/// Extracts the DOI from a field that should hold one, and removes known damage: punctuation, publisher tails, appended
/// identifiers and annotations.
///
/// This is a guess unless a resolver confirms it: `/full` or a final full stop can be part of a DOI.
///
/// ```
/// use tendot_names::repair;
///
/// let repaired = repair("10.1126/science.1255642.pmid:26068859").unwrap();
/// assert_eq!(repaired.identifier.as_str(), "10.1126/science.1255642");
/// assert_eq!(repaired.text_after, ".pmid:26068859");
/// assert!(repair("not a doi").is_none());
/// ```
pub fn repair(field: &str) -> Option<RepairedDoi<'_>> {
    let extractor = Extractor { is_single_field: true, ..Extractor::new() };
    let cleaned = remove_html_breaks(field);
    let found = extractor.find_iter(cleaned.as_bytes()).next();
    let Some(found) = found else {
        let identifier = Parser::lenient().parse(field).ok()?.into_identifier();
        let has_word_character =
            identifier.as_str().split('/').skip(1).any(|part| part.contains(char::is_alphanumeric));
        let (text_before, text_after) = (Cow::Borrowed(""), Cow::Borrowed(""));
        return has_word_character.then_some(RepairedDoi { identifier, text_before, text_after });
    };
    let doi = trim_field_tail(found.doi.as_str());
    let raw = cleaned.get(found.span.clone())?;
    let end = if doi.len() == found.doi.as_str().len() {
        found.span.end
    } else {
        // The trimmed text may have been percent-encoded.
        found.span.start + encoded_offset(raw, doi.len())
    };
    let (text_before, text_after) = match &cleaned {
        Cow::Borrowed(field) => (
            Cow::Borrowed(field.get(..found.span.start)?),
            Cow::Borrowed(field.get(end..).unwrap_or_default()),
        ),
        Cow::Owned(field) => {
            let (before, after) = (field.get(..found.span.start)?, field.get(end..).unwrap_or_default());
            (Cow::Owned(String::from(before)), Cow::Owned(String::from(after)))
        }
    };
    let doi = collapse_doubled(doi);
    Doi::new(&doi).or_else(|_| Doi::allowing_unassigned(&doi, crate::SyntaxRules::Current)).ok()?;
    let identifier = DoiOrShortDoi::Doi(Cow::Owned(DoiBuf::from_validated(doi)));
    Some(RepairedDoi { identifier, text_before, text_after })
}

/// Removes HTML line breaks, and a doubled dot in the prefix.
fn remove_html_breaks(field: &str) -> Cow<'_, str> {
    let mut cleaned = Cow::Borrowed(field);
    for (damage, replacement) in [("<br/>", ""), ("<br />", ""), ("<br>", ""), ("<wbr>", ""), ("10..", "10.")]
    {
        if cleaned.contains(damage) {
            cleaned = Cow::Owned(cleaned.replace(damage, replacement));
        }
    }
    cleaned
}

/// Trims endings that are trimmed in a field but not in text: the year of publication, a trailing `#`.
fn trim_field_tail(doi: &str) -> &str {
    let is_year = |text: &str| {
        text.len() == 4
            && (text.starts_with("19") || text.starts_with("20"))
            && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((rest, last)) = doi.rsplit_once('(')
        // ASCE page ranges (10.1061), `128:12(1987)`, have the same shape.
        && !doi.starts_with("10.1061/")
        && rest.split_once('/').is_some_and(|(_, suffix)| !suffix.is_empty())
        && is_year(last.strip_suffix(')').unwrap_or(last))
    {
        return rest;
    }
    match doi.strip_suffix('#') {
        Some(rest) if !rest.ends_with(['-', '/']) => rest,
        _ => doi,
    }
}

/// Collapses doubled dots, and doubled underscores in Springer's chapter DOIs, which TeX leaves behind.
fn collapse_doubled(doi: &str) -> String {
    let doi = if doi.contains("...") { String::from(doi) } else { doi.replace("..", ".") };
    if doi.starts_with("10.1007/978") { doi.replace("__", "_") } else { doi }
}
