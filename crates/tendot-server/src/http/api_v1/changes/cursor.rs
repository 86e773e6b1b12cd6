//! Text form of a change cursor.

use data_encoding::BASE64URL_NOPAD;
use tendot_registry::ChangeCursor;
use tendot_store::NameKey;

/// Formats a cursor: `12`, or `12:` and a name within that log entry, in characters that need no escaping anywhere.
pub(super) fn format_cursor(cursor: &ChangeCursor) -> String {
    match &cursor.import_key {
        None => cursor.sequence.to_string(),
        Some(key) => format!("{}:{}", cursor.sequence, BASE64URL_NOPAD.encode(key.as_bytes())),
    }
}

/// Parses a cursor.
pub(super) fn parse_cursor(text: &str) -> Option<ChangeCursor> {
    let (sequence, within) = text.split_once(':').map_or((text, None), |(start, rest)| (start, Some(rest)));
    let key = |encoded: &str| {
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
        NameKey::new(std::str::from_utf8(&bytes).ok()?).ok()
    };
    Some(ChangeCursor {
        // A sign is not accepted.
        sequence: sequence.bytes().all(|byte| byte.is_ascii_digit()).then(|| sequence.parse().ok())??,
        import_key: match within {
            Some(encoded) => Some(key(encoded)?),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        for text in ["0", "12", "18446744073709551615", "12:MTAuMS9Y", "12:MTAuMS_DqQ"] {
            assert_eq!(parse_cursor(text).as_ref().map(format_cursor).as_deref(), Some(text), "{text}");
        }
        assert_eq!(parse_cursor("12:MTAuMS9Y").unwrap().import_key, NameKey::new("10.1/x").ok());
        for text in [
            "",
            "x",
            "-1",
            "+1",
            " 1",
            "1 ",
            "18446744073709551616",
            "12:",
            "12:MTAuMS9Y=",
            "12:_w",
            ":MTAuMS9Y",
        ] {
            assert_eq!(parse_cursor(text), None, "{text}");
        }
    }
}
