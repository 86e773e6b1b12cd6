//! Checks of handle names and text fields: length, invisible characters.

use tendot_names::{Doi, SyntaxRules};
use tendot_proto::Handle;

use crate::{Error, RecordLimits, RegistryError, RegistrySettings, codes};

/// Prefix of a handle: the part before its first slash; a name without one is a prefix.
pub(crate) fn prefix_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(prefix, _)| prefix)
}

/// Checks a new handle name and returns it as text.
pub(crate) fn check_handle_name<'a>(name: Handle<'a>, limits: &RecordLimits) -> Result<&'a str, Error> {
    name.validate_for_create_up_to(limits.max_name_bytes)?;
    let text = name.to_str().unwrap_or_default();
    if limits.allow_invisible_characters {
        return Ok(text);
    }
    match text.char_indices().find(|(_, character)| is_invisible(*character)) {
        Some((offset, character)) => Err(Error::InvisibleCharacter { character, offset }),
        None => Ok(text),
    }
}

/// Checks the name of a new record under a DOI prefix: graphic characters and a suffix (Z39.84, sections 4.1 and 4.3). Other
/// handles have no such grammar.
pub(crate) fn check_doi_syntax(name: &str, settings: &RegistrySettings) -> Result<(), Error> {
    let prefix = prefix_of(name);
    if !settings.is_doi_prefix(prefix) {
        return Ok(());
    }
    Doi::with_rules(name, SyntaxRules::Minimal2002).map(drop).map_err(Error::Doi)
}

/// Whether a name has a percent-encoded character, such as `%23`. In a bare name it stands for itself, which is rarely meant.
///
/// ```
/// use tendot_registry::looks_percent_encoded;
///
/// assert!(looks_percent_encoded("10.1000/a%23b") && !looks_percent_encoded("10.1000/100%"));
/// ```
pub fn looks_percent_encoded(name: &str) -> bool {
    let is_encoded = |offset: usize| {
        let digits = name.as_bytes().get(offset + 1..offset + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    memchr::memchr_iter(b'%', name.as_bytes()).any(is_encoded)
}

/// Invisible characters: controls, bidirectional marks, zero-width characters, tags. Names that differ in them look the same.
///
/// ```
/// use tendot_registry::is_invisible;
///
/// assert!(is_invisible('\u{202e}') && is_invisible('\n') && !is_invisible('é'));
/// ```
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Checks a text field: not empty, at most `max_bytes` bytes, no invisible characters.
pub(crate) fn check_text(text: &str, pointer: &str, max_bytes: usize) -> Result<(), RegistryError> {
    if text.trim().is_empty() {
        return Err(RegistryError::invalid(codes::MISSING, pointer, "text must not be empty"));
    }
    if text.len() > max_bytes {
        let detail = format!("{} bytes (maximum {max_bytes})", text.len());
        return Err(RegistryError::invalid(codes::TOO_LONG, pointer, detail));
    }
    match text.chars().find(|character| is_invisible(*character)) {
        Some(character) => {
            let detail = format!("invisible character U+{:04X}", u32::from(character));
            Err(RegistryError::invalid(codes::INVISIBLE_CHARACTER, pointer, detail))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        check("10.5555/1", None);
        check("10.5555/例-Ü é", None);
        check("10.5555//////", None);
        check("10.5555/", None);
        check("0.NA/10.5555", None);
        check(&format!("10.5555/{}", "/".repeat(255)), None);
        check("", Some("empty handle"));
        check("10.5555", Some("invalid handle: missing `/`"));
        check("/", Some("invalid handle: empty prefix"));
        check(
            &format!("10.5555/{}", "x".repeat(2_041)),
            Some("handle of 2049 bytes exceeds the limit of 2048"),
        );
        check("10.5555/a\nb", Some("invalid handle: invisible character U+000A at byte 9"));
        check("10.5555/\0", Some("invalid handle: invisible character U+0000 at byte 8"));
        check("10.5555/a\u{202e}b", Some("invalid handle: invisible character U+202E at byte 9"));
        check("10.5555/a\u{200b}", Some("invalid handle: invisible character U+200B at byte 9"));
        check("10.5555/\u{e0041}", Some("invalid handle: invisible character U+E0041 at byte 8"));
    }

    #[track_caller]
    fn check(name: &str, fault: Option<&str>) {
        let found = check_handle_name(Handle::from(name), &RecordLimits::default()).err();
        assert_eq!(found.map(|error| error.to_string()).as_deref(), fault, "{name:?}");
        let lenient = RecordLimits { allow_invisible_characters: true, ..RecordLimits::default() };
        let only_invisible = fault.is_none_or(|fault| fault.contains("U+"));
        assert_eq!(check_handle_name(Handle::from(name), &lenient).is_ok(), only_invisible, "{name:?}");
    }

    /// Under DOI prefixes, the grammar of DOIs holds.
    #[test]
    fn doi_syntax() {
        let settings = RegistrySettings::default();
        let check = |name: &str, code: Option<&str>| {
            let error = check_doi_syntax(name, &settings).err();
            let found = error.as_ref().map(|error| match error {
                Error::Doi(error) => error.kind().code(),
                error => panic!("{error}"),
            });
            assert_eq!(found, code, "{name:?}");
        };
        check("10.5555/例-Ü é", None);
        check("10.abc/x", None);
        check("10.5555/", Some("empty-suffix"));
        check("10.5555/a\u{7f}", Some("control-character"));
        check("10.5555/a\u{e000}", Some("private-use-character"));
        check("10.5555/a\u{fdd0}", Some("unassigned-character"));
        check("10.5555/a\u{10ffff}", Some("unassigned-character"));
        check("10.5555/a\u{378}", Some("unassigned-character"));
        check("10.5555/a\u{2029}", Some("format-character"));
        check("20.500/", None);
        check("20.500/a\u{e000}", None);
        check("0.NA/10.5555", None);
    }

    /// Invalid UTF-8 is rejected.
    #[test]
    fn bytes() {
        for suffix in [&b"\x80"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xff"] {
            let name = [b"10.5555/", suffix].concat();
            let error = check_handle_name(Handle::new(&name), &RecordLimits::default()).unwrap_err();
            assert_eq!(error.to_string(), "invalid handle: invalid UTF-8 at byte 8");
        }
    }
}
