//! Repair of a field that holds one DOI.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

use crate::{Adjustment, Adjustments, DoiBuf, DoiOrShortDoi, Extractor, InputForm, Parser};

/// Result of [`Parser::repair`]: the DOI, how it was written, and the text removed around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairedDoi<'a> {
    /// The DOI or shortDOI.
    pub identifier: DoiOrShortDoi<'a>,
    /// Input form of the field; bare if the field cannot be parsed as it is.
    pub input_form: InputForm,
    /// Adjustments of lenient parsing, if the field can be parsed as it is; [`Adjustment::Repaired`] if that would give
    /// another DOI, or none.
    pub adjustments: Adjustments,
    /// Text before the DOI: damage, or a label, scheme or proxy URL.
    pub text_before: Cow<'a, str>,
    /// Text after the DOI.
    pub text_after: Cow<'a, str>,
}

/// Repairs a field with a lenient parser, see [`Parser::repair`].
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
    Parser::lenient().repair(field)
}

impl Parser {
    /// Extracts the DOI from a field that should hold one, and removes known damage: punctuation, publisher tails, appended
    /// identifiers and annotations.
    ///
    /// This is a guess unless a resolver confirms it: `/full` or a final full stop can be part of a DOI. The field is parsed
    /// leniently, also by a strict parser; `None` if it has no DOI that satisfies the rules, or is too long.
    ///
    /// ```
    /// use tendot_names::{Adjustment, InputForm, Parser};
    ///
    /// let repaired = Parser::lenient().repair("https://doi.org/10.1002/asi.20001/full").unwrap();
    /// assert_eq!(repaired.identifier.as_str(), "10.1002/asi.20001");
    /// assert_eq!(repaired.input_form, InputForm::ProxyUrl);
    /// assert!(repaired.adjustments.contains(Adjustment::Repaired));
    /// ```
    pub fn repair<'a>(&self, field: &'a str) -> Option<RepairedDoi<'a>> {
        if field.len() > self.max_len {
            return None;
        }
        let parsed = Self { is_lenient: true, ..*self }.parse(field).ok();
        let input_form = parsed.as_ref().map_or(InputForm::Bare, |parsed| parsed.input_form());
        let mut adjustments = parsed.as_ref().map(|parsed| parsed.adjustments()).unwrap_or_default();
        let cleaned = remove_html_breaks(field);
        let extractor = Extractor { is_single_field: true, ..Extractor::new() };
        let Some(found) = extractor.find_iter(cleaned.as_bytes()).next() else {
            let identifier = parsed?.into_identifier();
            let has_word_character = identifier.suffix().contains(char::is_alphanumeric);
            let (text_before, text_after) = Default::default();
            return has_word_character.then_some(RepairedDoi {
                identifier,
                input_form,
                adjustments,
                text_before,
                text_after,
            });
        };
        let (span, doi) = (found.span.clone(), collapse_doubled(found.doi.as_str()));
        self.rules.check(&doi, true).ok()?;
        let identifier = DoiOrShortDoi::Doi(Cow::Owned(DoiBuf::from_validated(doi)));
        let is_unchanged = parsed.is_some_and(|parsed| *parsed.identifier() == identifier);
        adjustments.insert_if(Adjustment::Repaired, !is_unchanged);
        let text_before = slice(&cleaned, 0..span.start)?;
        let text_after = slice(&cleaned, span.end..cleaned.len())?;
        Some(RepairedDoi { identifier, input_form, adjustments, text_before, text_after })
    }
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

/// Collapses doubled dots, and doubled underscores in Springer's chapter DOIs, which TeX leaves behind.
fn collapse_doubled(doi: &str) -> String {
    let doi = if doi.contains("...") { String::from(doi) } else { doi.replace("..", ".") };
    if doi.starts_with("10.1007/978") { doi.replace("__", "_") } else { doi }
}

/// Part of a text, borrowed if the text is.
fn slice<'a>(text: &Cow<'a, str>, range: Range<usize>) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => text.get(range).map(Cow::Borrowed),
        Cow::Owned(text) => text.get(range).map(|part| Cow::Owned(String::from(part))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SyntaxRules;

    #[test]
    fn reports_removed_text() {
        check("10.1207/s1_1(2006)", ("", "10.1207/s1_1", "(2006)"));
        // An escape before the removed text, of another length than its character
        check(r"10.1207/s1\_1(2006)", ("", "10.1207/s1_1", "(2006)"));
        check("doi: 10.1000/a&amp;b(2006).", ("doi: ", "10.1000/a&b", "(2006)."));
        check("10.1000/a%282006%29", ("", "10.1000/a", "%282006%29"));
        check("10.1000/é%23", ("", "10.1000/é", "%23"));
        check("see <br/>10.1000/182, p. 3", ("see ", "10.1000/182", ", p. 3"));
        check("10.1000/a..b.pdf", ("", "10.1000/a.b", ".pdf"));
        check("10/gf4gqc", ("", "10/gf4gqc", ""));
    }

    #[track_caller]
    fn check(field: &str, expected: (&str, &str, &str)) {
        let repaired = repair(field).unwrap();
        let RepairedDoi { identifier, text_before, text_after, .. } = &repaired;
        assert_eq!((&**text_before, identifier.as_str(), &**text_after), expected);
    }

    #[test]
    fn reports_form_and_adjustments() {
        let codes = |field| {
            let repaired = repair(field).unwrap();
            let codes = repaired.adjustments.iter().map(Adjustment::code);
            (repaired.input_form.as_str(), codes.collect::<alloc::vec::Vec<_>>())
        };
        assert_eq!(codes("https://doi.org/10.1000/182"), ("proxy-url", alloc::vec![]));
        assert_eq!(codes(" doi:10.1000/182"), ("doi", alloc::vec!["whitespace-trimmed"]));
        assert_eq!(codes("doi:10.1000/182."), ("doi", alloc::vec!["repaired"]));
        assert_eq!(codes("see 10.1000/182."), ("name", alloc::vec!["repaired"]));
    }

    #[test]
    fn respects_rules_and_length() {
        let field = "10.2505/4/ss15_038_08_78.";
        assert!(Parser::lenient().repair(field).is_some());
        assert!(Parser::lenient().rules(SyntaxRules::Z3984).repair(field).is_none());
        assert!(Parser::lenient().max_len(field.len()).repair(field).is_some());
        assert!(Parser::lenient().max_len(field.len() - 1).repair(field).is_none());
        // Without a DOI in it, the field is only parsed.
        assert!(Parser::lenient().repair("a/b").is_none());
        assert!(Parser::strict().rules(SyntaxRules::Minimal2002).repair("a/b").is_some());
    }
}
