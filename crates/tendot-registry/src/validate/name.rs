//! Checks of handle names and text fields: length, invisible characters.

use tendot_proto::Handle;

use crate::{Error, RecordLimits, RegistryError, codes};

/// Checks a new handle name and returns it as text.
pub(crate) fn check_handle_name<'a>(name: Handle<'a>, limits: &RecordLimits) -> Result<&'a str, Error> {
    name.validate_for_create()?;
    let text = name.to_str().unwrap_or_default();
    if limits.allow_invisible_characters {
        return Ok(text);
    }
    match text.char_indices().find(|(_, character)| is_invisible(*character)) {
        Some((offset, character)) => Err(Error::InvisibleCharacter { character, offset }),
        None => Ok(text),
    }
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
