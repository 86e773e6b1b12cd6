//! Repair of a field that holds one DOI.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
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
    /// Text of the field before the DOI: damage, or a label, scheme or proxy URL. Damage inside the DOI is not listed.
    pub text_before: Cow<'a, str>,
    /// Text of the field after the DOI.
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
        let cleaned = CleanedField::new(field);
        let extractor = Extractor { is_single_field: true, ..Extractor::new() };
        let Some(found) = extractor.find_iter(cleaned.text.as_bytes()).next() else {
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
        let span = cleaned.field_range(found.span.clone());
        let doi = collapse_doubled(found.doi.as_str());
        self.rules.check(&doi, true).ok()?;
        let identifier = DoiOrShortDoi::Doi(Cow::Owned(DoiBuf::from_validated(doi)));
        let is_unchanged = parsed.is_some_and(|parsed| *parsed.identifier() == identifier);
        adjustments.insert_if(Adjustment::Repaired, !is_unchanged);
        let text_before = Cow::Borrowed(field.get(..span.start)?);
        let text_after = Cow::Borrowed(field.get(span.end..)?);
        Some(RepairedDoi { identifier, input_form, adjustments, text_before, text_after })
    }
}

/// Field without HTML line breaks and doubled dots in prefixes, and the map of its offsets to the field.
struct CleanedField<'a> {
    text: Cow<'a, str>,
    /// Offset in `text` and length of each removed part, in order.
    removed: Vec<(usize, usize)>,
}

impl<'a> CleanedField<'a> {
    fn new(field: &'a str) -> Self {
        // What is removed, and what of it remains.
        const DAMAGE: [(&str, &str); 5] =
            [("<br/>", ""), ("<br />", ""), ("<br>", ""), ("<wbr>", ""), ("10..", "10.")];
        let mut cleaned = Self { text: Cow::Borrowed(field), removed: Vec::new() };
        if !DAMAGE.iter().any(|(damage, _)| field.contains(damage)) {
            return cleaned;
        }
        let mut text = String::with_capacity(field.len());
        let mut rest = field;
        while let Some(first) = rest.chars().next() {
            let damage = DAMAGE.into_iter().find(|(damage, _)| rest.starts_with(damage));
            let len = match damage {
                Some((damage, replacement)) => {
                    text.push_str(replacement);
                    cleaned.removed.push((text.len(), damage.len() - replacement.len()));
                    damage.len()
                }
                None => {
                    text.push(first);
                    first.len_utf8()
                }
            };
            rest = rest.get(len..).unwrap_or_default();
        }
        cleaned.text = Cow::Owned(text);
        cleaned
    }

    /// Range in the field of a range in the cleaned text, without removed parts at its ends.
    fn field_range(&self, range: Range<usize>) -> Range<usize> {
        let removed_len = |is_before: &dyn Fn(usize) -> bool| {
            let removed = self.removed.iter().filter(|(offset, _)| is_before(*offset));
            removed.map(|(_, len)| len).sum::<usize>()
        };
        let start = range.start + removed_len(&|offset| offset <= range.start);
        let end = range.end + removed_len(&|offset| offset < range.end);
        start..end
    }
}

/// Collapses doubled dots, and doubled underscores in Springer's chapter DOIs, which TeX leaves behind.
fn collapse_doubled(doi: &str) -> String {
    let doi = if doi.contains("...") { String::from(doi) } else { doi.replace("..", ".") };
    if doi.starts_with("10.1007/978") { doi.replace("__", "_") } else { doi }
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
        check("see <br/>10.1000/182, p. 3", ("see <br/>", "10.1000/182", ", p. 3"));
        check("10.1000/182<br/>", ("", "10.1000/182", "<br/>"));
        check("<br>10..1000/1<wbr>82<br />x<br>", ("<br>", "10.1000/182x", "<br>"));
        // Punctuation before what is removed
        check("10.1000/abc.#", ("", "10.1000/abc", ".#"));
        check("10.1000/abc.(2019)", ("", "10.1000/abc", ".(2019)"));
        check("10.1000/abc..(2019)", ("", "10.1000/abc", "..(2019)"));
        check("10.1000/abc, (2019", ("", "10.1000/abc", ", (2019"));
        check("10.1000/abc/full.#(2019).", ("", "10.1000/abc", "/full.#(2019)."));
        check("https://doi.org/10.1000/abc.%282019%29", ("https://doi.org/", "10.1000/abc", ".%282019%29"));
        // Nothing else would be left
        check("10.1000/-(2019)", ("", "10.1000/-(2019)", ""));
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
            (repaired.input_form.as_str(), codes.collect::<Vec<_>>())
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
