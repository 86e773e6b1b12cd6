//! Escaping of control and invisible characters, so that input cannot control the terminal.

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
        if c.is_control() || is_invisible(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    escaped
}

/// Invisible characters that can make displayed text misleading, such as bidirectional controls.
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c), 0xAD | 0x61C | 0x180E | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
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
}
