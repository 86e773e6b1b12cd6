//! Homograph detection in host names (IDNA, punycode).

use idna::punycode;
use percent_encoding::percent_decode_str;
use unicode_security::skeleton;

use super::confusable::is_latin_or_common;
use crate::validate::has_mixed_scripts;

/// Maximum length of a label in bytes (RFC 1035, 2.3.4).
const MAX_LABEL_LEN: usize = 63;

/// Finds a label that imitates another: mixed scripts, or letters of another script that all look Latin under a Latin
/// top-level domain such as `.org`.
pub(super) fn find_homograph(host: &str) -> Option<String> {
    let may_be_encoded = |bytes: &[u8]| {
        bytes.contains(&b'%') || bytes.windows(4).any(|window| window.eq_ignore_ascii_case(b"xn--"))
    };
    if host.is_ascii() && !may_be_encoded(host.as_bytes()) {
        return None;
    }
    // As browsers do.
    let decoded = percent_decode_str(host).decode_utf8_lossy();
    // Browsers accept these as dots (IDNA).
    let mut labels =
        decoded.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']).filter(|label| !label.is_empty());
    let ends_latin =
        labels.clone().next_back().is_some_and(|last| last.is_ascii() && !is_punycode_label(last));
    let is_homograph = |label: &&str| {
        let text = decode_label(label);
        has_mixed_scripts(&text) || ends_latin && is_latin_lookalike(&text)
    };
    labels.find(is_homograph).map(Into::into)
}

/// Label as displayed. A label that cannot be decoded does not resolve.
fn decode_label(label: &str) -> String {
    let encoded = label.get(4..).filter(|_| is_punycode_label(label) && label.len() <= MAX_LABEL_LEN);
    encoded.and_then(punycode::decode_to_string).unwrap_or_else(|| label.into())
}

fn is_punycode_label(label: &str) -> bool {
    label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
}

fn is_latin_lookalike(label: &str) -> bool {
    !label.chars().all(is_latin_or_common)
        && skeleton(label).all(|character| character.is_ascii_alphanumeric() || character == '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts() {
        check("example.org", None);
        check("xn--bcher-kva.example", None);
        check("bücher.example", None);
        check("ırmak.example", None);
        check("пример.example", None);
        check("例え.テスト", None);
        check("xn--r8jz45g.xn--zckzah", None);
        check("日本abc.example", None);
        check("сор.рф", None);
        check("xn--.example", None);
        check("xn--a-ecp!!.example", None);
        check("%ff%zz%", None);
        check("[2001:db8::1]", None);
        check("", None);
        // Cyrillic а in a Latin word, in four spellings.
        check("аpple.example", Some("аpple"));
        check("www.аpple.example", Some("аpple"));
        check("XN--pple-43d.example", Some("XN--pple-43d"));
        check("%D0%B0pple.example", Some("аpple"));
        check("www。аpple。example", Some("аpple"));
        // Entirely Cyrillic.
        check("аррӏе.com", Some("аррӏе"));
        check("xn--80ak6aa92e.com", Some("xn--80ak6aa92e"));
        check("аррӏе.рф", None);
    }

    #[track_caller]
    fn check(host: &str, expected: Option<&str>) {
        assert_eq!(find_homograph(host).as_deref(), expected, "{host}");
    }

    #[test]
    fn punycode() {
        let check = |encoded, expected: Option<&str>| {
            assert_eq!(punycode::decode_to_string(encoded).as_deref(), expected, "{encoded}");
        };
        // RFC 3492, 7.1: Arabic, Chinese, Czech, Japanese.
        check("egbpdaj6bu4bxfgehfvwxn", Some("ليهمابتكلموشعربي؟"));
        check("ihqwcrb4cv8a8dqg056pqjye", Some("他们为什么不说中文"));
        check("Proprostnemluvesky-uyb24dma41a", Some("Pročprostěnemluvíčesky"));
        check("Hello-Another-Way--fc4qua05auwb3674vfr0b", Some("Hello-Another-Way-それぞれの場所"));
        check("99999999", None);
        check("a", Some("\u{80}"));
        check("z", None);
        check("é", None);
    }

    proptest! {
        #[test]
        fn any_host(host in "\\PC{0,80}", encoded in "[a-zA-Z0-9-]{0,70}") {
            let _ = find_homograph(&host);
            let _ = find_homograph(&format!("xn--{encoded}.example"));
        }
    }
}
