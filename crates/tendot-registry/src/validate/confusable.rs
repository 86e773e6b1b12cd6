//! Confusable names: Unicode normalization variants, mixed scripts (UTS #39).

use tendot_proto::Budget;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::MixedScript as _;
use unicode_security::mixed_script::AugmentedScriptSet;

use crate::rules::RecordReader;
use crate::{Error, cost};

impl RecordReader {
    /// Finds an existing name that is a normalization variant of a new one.
    pub(crate) async fn find_confusable(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, Error> {
        budget.charge(cost::bytes(name.len()))?;
        for form in normalization_variants(name) {
            if let Some(entry) = self.get_record(&form, budget).await? {
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }
}

/// NFC and NFD forms of a name, where they differ from it.
pub(crate) fn normalization_variants(name: &str) -> impl Iterator<Item = String> {
    let forms = (!name.is_ascii()).then(|| [name.nfc().collect::<String>(), name.nfd().collect()]);
    forms.into_iter().flatten().filter(move |form| form != name)
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
        let check = |name, expected: &[&str]| {
            assert_eq!(normalization_variants(name).collect::<Vec<_>>(), expected, "{name}");
        };
        check("10.5555/e", &[]);
        check("10.5555/дом", &[]);
        check("10.5555/\u{e9}", &["10.5555/e\u{301}"]);
        check("10.5555/e\u{301}", &["10.5555/\u{e9}"]);
        check("10.5555/\u{e9}e\u{301}", &["10.5555/\u{e9}\u{e9}", "10.5555/e\u{301}e\u{301}"]);
        check("10.5555/\u{212a}", &["10.5555/K", "10.5555/K"]);
    }
}
