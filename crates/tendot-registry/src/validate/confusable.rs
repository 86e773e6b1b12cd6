//! Confusable names: Unicode normalization variants, look-alike characters, mixed scripts (UTS #39).

use tendot_names::{Doi, SyntaxRules};
use tendot_proto::Budget;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::MixedScript as _;
use unicode_security::confusable_detection::skeleton;
use unicode_security::mixed_script::AugmentedScriptSet;

use crate::rules::RecordReader;
use crate::{Error, cost};

impl RecordReader {
    /// Finds an existing name that looks like a new one. The likeliest ones, see [`lookalike_variants`], are in the read set, so
    /// that of two of them only one is created at the same time.
    pub(crate) async fn find_confusable(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, Error> {
        budget.charge(cost::bytes(name.len()))?;
        for form in lookalike_variants(name) {
            if let Some(entry) = self.get_record(&form, budget).await? {
                return Ok(Some(entry.name));
            }
        }
        for found in self.lookalike_names(name, budget).await? {
            if let Some(entry) = self.get_record(&found, budget).await? {
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }
}

/// Hyphens and dashes that look like the ASCII hyphen (UTS #39): hyphen, non-breaking hyphen, figure dash, en dash, minus.
const HYPHENS: [char; 6] = ['-', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2212}'];

/// Hyphens of a name that are varied, from its start.
const MAX_VARIED_HYPHENS: usize = 16;

/// Names that look like this one, at most 89, which are looked up when it is registered: its NFC and NFD forms; itself with
/// ASCII characters for those that look like them; and with other hyphens, one of them or all of them.
pub(crate) fn lookalike_variants(name: &str) -> Vec<String> {
    let mut variants: Vec<String> = Vec::new();
    let mut add = |variant: String| {
        if variant != name && !variants.contains(&variant) {
            variants.push(variant);
        }
    };
    if !name.is_ascii() {
        add(name.nfc().collect());
        add(name.nfd().collect());
        add(ascii_prototypes(name));
    }
    let suffix_at = name.find('/').unwrap_or(0);
    let is_hyphen = |(at, character): &(usize, char)| *at > suffix_at && HYPHENS.contains(character);
    let hyphens: Vec<usize> = name.char_indices().filter(is_hyphen).map(|(at, _)| at).collect();
    if hyphens.is_empty() {
        return variants;
    }
    // Hyphens at `changed` are `hyphen`, all others ASCII.
    let with_hyphen = |hyphen: char, is_changed: &dyn Fn(usize) -> bool| -> String {
        let vary = |(at, character)| match is_hyphen(&(at, character)) {
            true if is_changed(at) => hyphen,
            true => '-',
            false => character,
        };
        name.char_indices().map(vary).collect()
    };
    for hyphen in HYPHENS {
        add(with_hyphen(hyphen, &|_| true));
    }
    for at in hyphens.into_iter().take(MAX_VARIED_HYPHENS) {
        for hyphen in HYPHENS {
            add(with_hyphen(hyphen, &|other| other == at));
        }
    }
    variants
}

/// Name with ASCII characters for others that look like them, such as `-` for an en dash and `a` for a Cyrillic `а`.
fn ascii_prototypes(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for character in name.chars() {
        let before = folded.len();
        if !character.is_ascii() {
            folded.extend(skeleton(character.encode_utf8(&mut [0; 4])));
        }
        if folded.len() == before || !folded.get(before..).is_some_and(str::is_ascii) {
            folded.truncate(before);
            folded.push(character);
        }
    }
    folded
}

/// Whether two different names look alike to a reader: equal skeletons (UTS #39), apart from the case of ASCII letters.
///
/// ```
/// use tendot_registry::look_alike;
///
/// assert!(look_alike("10.1000/c-d", "10.1000/c\u{2013}d"));
/// assert!(look_alike("10.1000/O", "10.1000/0"));
/// assert!(!look_alike("10.1000/a", "10.1000/A"), "the same name");
/// assert!(!look_alike("10.1000/a", "10.1000/b"));
/// ```
pub fn look_alike(a: &str, b: &str) -> bool {
    // Letters of either case may look like others: `l` like `1`, `O` like `0`.
    const FOLDS: [fn(&str) -> String; 3] = [str::to_owned, str::to_ascii_lowercase, str::to_ascii_uppercase];
    !a.eq_ignore_ascii_case(b) && FOLDS.iter().any(|fold| skeleton(&fold(a)).eq(skeleton(&fold(b))))
}

/// Whether two names are the same text in different Unicode compositions.
pub fn is_same_text(a: &str, b: &str) -> bool {
    a.nfc().eq(b.nfc())
}

/// URI form of a name, which shows every character apart: beside names that look alike.
///
/// ```
/// assert_eq!(tendot_registry::uri_form("10.1000/c\u{2013}d"), "doi:10.1000/c%E2%80%93d");
/// ```
pub fn uri_form(name: &str) -> String {
    // The rules of any prefix.
    let doi = Doi::with_rules(name, SyntaxRules::Minimal2002);
    doi.map_or_else(|_| name.to_owned(), |doi| doi.uri().to_string())
}

/// Whether a text mixes scripts with similar letters. Latin beside East Asian scripts is common and not confusable.
pub(crate) fn has_mixed_scripts(text: &str) -> bool {
    if text.is_ascii() || text.is_single_script() {
        return false;
    }
    let others: String = text.chars().filter(|character| !is_latin_or_common(*character)).collect();
    let scripts = AugmentedScriptSet::for_str(&others);
    !(scripts.hanb || scripts.jpan || scripts.kore)
}

/// Whether a character is Latin, or of no particular script, such as a digit.
pub(super) fn is_latin_or_common(character: char) -> bool {
    let mut scripts = AugmentedScriptSet::for_char('a');
    scripts.intersect_with(AugmentedScriptSet::for_char(character));
    !scripts.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        for text in
            ["", "abc-1/2", "Ü é", "e\u{301}", "дом-1", "例-Ü é", "例えばカナ abc", "한국어 abc", "µm"]
        {
            assert!(!has_mixed_scripts(text), "{text}");
        }
        for text in ["аbc", "abc/дом", "α-x", "дом例", "aдом例"] {
            assert!(has_mixed_scripts(text), "{text}");
        }
    }

    #[test]
    fn forms() {
        let check = |name: &str, expected: &[&str]| assert_eq!(lookalike_variants(name), expected, "{name}");
        check("10.5555/e", &[]);
        check("10.5555/\u{e9}", &["10.5555/e\u{301}"]);
        check("10.5555/e\u{301}", &["10.5555/\u{e9}"]);
        check("10.5555/\u{e9}e\u{301}", &["10.5555/\u{e9}\u{e9}", "10.5555/e\u{301}e\u{301}"]);
        check("10.5555/\u{212a}", &["10.5555/K"]);
        check("10.5555/д1", &[]);
        check("10.5555/\u{430}b", &["10.5555/ab"]);
    }

    #[test]
    fn hyphens() {
        for hyphen in HYPHENS {
            assert_eq!(skeleton(&hyphen.to_string()).collect::<String>(), "-", "{hyphen:?}");
            let name = format!("10.5555/c{hyphen}d");
            let others = HYPHENS.iter().filter(|other| **other != hyphen);
            let mut expected: Vec<String> = others.map(|other| format!("10.5555/c{other}d")).collect();
            let mut found = lookalike_variants(&name);
            expected.sort();
            found.sort();
            assert_eq!(found, expected);
        }
        let variants = lookalike_variants("10.5555/a-b-c");
        for variant in ["10.5555/a–b-c", "10.5555/a-b−c", "10.5555/a–b–c"] {
            assert!(variants.iter().any(|found| found == variant), "{variant}");
        }
        assert!(lookalike_variants("10-5/a–b-c").iter().all(|name| name.starts_with("10-5/a")));
        let most = lookalike_variants(&format!("10.5555/{}", "é–".repeat(1_000)));
        assert!(most.len() <= 89, "{}", most.len());
    }

    #[test]
    fn readers() {
        assert!(look_alike("10.1/\u{e9}", "10.1/e\u{301}") && is_same_text("10.1/\u{e9}", "10.1/e\u{301}"));
        assert!(look_alike("10.1/C-d", "10.1/c−D") && !is_same_text("10.1/c-d", "10.1/c−d"));
        assert!(look_alike("10.1/p\u{430}per", "10.1/paper"));
        assert_eq!(uri_form("dk/a b"), "doi:dk/a%20b");
        assert_eq!(uri_form("10.1"), "10.1");
    }
}
