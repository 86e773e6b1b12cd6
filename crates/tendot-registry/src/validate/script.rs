//! Letters of several scripts in one word, by which it can look like another (Unicode Technical Standard 39).

use unicode_security::MixedScript as _;
use unicode_security::mixed_script::AugmentedScriptSet;

/// Whether there are letters of several scripts that could be taken for each other. Nobody takes Latin letters for those
/// of East Asia, where they are used side by side.
pub(crate) fn has_mixed_scripts(text: &str) -> bool {
    if text.is_ascii() || text.is_single_script() {
        return false;
    }
    let others: String = text.chars().filter(|character| !is_latin_or_common(*character)).collect();
    let scripts = AugmentedScriptSet::for_str(&others);
    !(scripts.hanb || scripts.jpan || scripts.kore)
}

/// Whether a character is a Latin letter or of no script at all, such as a digit.
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
}
