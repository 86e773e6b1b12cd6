//! Redaction of passwords in settings that are printed.

use std::path::Path;

/// Replaces the password in a store address with `***`: in a URL (`postgres://user:***@host/database`, `?password=***`) or in
/// PostgreSQL's keyword form (`password=***`).
pub(crate) fn redact_password(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    if let Some((scheme, after)) = text.split_once("://") {
        // A password may contain an unescaped `@`, `/` or `?`: redact too much rather than too little.
        let before = after.split('?').next().unwrap_or(after);
        let end = before.rfind('@').or_else(|| after.rfind('@'));
        let start = end.and_then(|end| after[..end].find(':'));
        if let (Some(start), Some(end)) = (start, end) {
            redacted.push_str(&format!("{scheme}://{}:***", &after[..start]));
            rest = &after[end..];
        }
    }
    while let Some(at) = rest.to_ascii_lowercase().find("password=") {
        let value = at + "password=".len();
        redacted.push_str(&rest[..value]);
        redacted.push_str("***");
        rest = &rest[value..];
        rest = &rest[value_end(rest)..];
    }
    redacted.push_str(rest);
    redacted
}

/// End offset of an option's value, which may be quoted.
fn value_end(text: &str) -> usize {
    let is_quoted = text.starts_with('\'');
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(usize::from(is_quoted)) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\'' if is_quoted => return at + 1,
            '&' | ' ' if !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// True if the text contains a password.
pub(super) fn has_password(text: &str) -> bool {
    redact_password(text) != text
}

/// True if the file mode lets users other than owner and group read the file.
pub(super) fn is_world_readable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_passwords() {
        check("postgres://user:secret@host:5432/db?a=b", "postgres://user:***@host:5432/db?a=b");
        check("postgresql://user:secret@a,b:5433/db", "postgresql://user:***@a,b:5433/db");
        check("postgres://user:se@c/re:t@host/db", "postgres://user:***@host/db");
        check("postgres://user:se?c/ret@host/db", "postgres://user:***@host/db");
        check("postgres://user:secret@host", "postgres://user:***@host");
        check("postgres://:secret@host", "postgres://:***@host");
        check("postgres://user@host:5432/db", "postgres://user@host:5432/db");
        check("postgres://host/db?user=u&password=secret&x=y", "postgres://host/db?user=u&password=***&x=y");
        check("postgres://host/db?PassWord=secret", "postgres://host/db?PassWord=***");
        check("postgres://u:secret@host/db?password=secret", "postgres://u:***@host/db?password=***");
        check("postgres:host=h password=secret user=u", "postgres:host=h password=*** user=u");
        check("postgres:host=h password='se c\\'ret' user=u", "postgres:host=h password=*** user=u");
        check("postgres:password='secret", "postgres:password=***");
        check("https://me:secret@doi.org", "https://me:***@doi.org");
        check("postgres://u:secret@host/db?x=a@b", "postgres://u:***@host/db?x=a@b");
        check("embedded:/var/lib/a:b@c", "embedded:/var/lib/a:b@c");
        check("", "");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redact_password(text), expected);
        assert_eq!(has_password(text), text != expected);
        assert!(!expected.contains("secret"));
    }
}
