//! Escaping of control and invisible characters, so that input cannot control the terminal.

use tendot_registry::is_invisible;

/// Input quoted in a message: at most 120 characters, escaped by [`escape_control`].
pub(crate) fn quote_input(text: &[u8]) -> String {
    const MAX_QUOTED_CHARS: usize = 120;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", escape_control(&text[..end])),
        None => escape_control(&text),
    }
}

/// Escapes control and invisible characters, so that they cannot control the terminal.
pub(crate) fn escape_control(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if is_invisible(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    escaped
}

/// Valid JSON text as one line: invisible characters in strings become `\u` escapes, line breaks between tokens spaces.
pub(crate) fn escape_json_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for c in json.trim_end().chars() {
        match c {
            // Strings in JSON contain no control characters below U+0020: this is white space between tokens.
            ..' ' => line.push(' '),
            c if is_invisible(c) => {
                line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_control_characters() {
        assert_eq!(quote_input(b"10.1000/a\x1B[2Jb"), "10.1000/a\\u{1b}[2Jb");
        assert_eq!(quote_input("10.1000/\u{202E}281".as_bytes()), "10.1000/\\u{202e}281");
        assert_eq!(quote_input(&[b'a'; 500]).chars().count(), 121);
    }

    #[test]
    fn escapes_json() {
        let check = |json: &str, expected: &str| {
            let line = escape_json_line(json);
            assert_eq!(line, expected);
            let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
            assert_eq!(parse(&line), parse(json));
        };
        check("{\"a\":\"é \\n\"}\n", "{\"a\":\"é \\n\"}");
        check("{\n\t\"a\": 1\r\n}", "{  \"a\": 1  }");
        check("\"\u{7f}\u{9b}\u{202e}\u{feff}\"", "\"\\u007f\\u009b\\u202e\\ufeff\"");
        // Tags, above U+FFFF: surrogate pairs.
        check("\"a\u{e0001}\u{e007f}\u{1f414}\"", "\"a\\udb40\\udc01\\udb40\\udc7f\u{1f414}\"");
    }
}
