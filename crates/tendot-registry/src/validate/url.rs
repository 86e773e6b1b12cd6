//! Checks of `URL` values: scheme, host, credentials.

use tendot_proto::record::Url;

use super::hostname::find_homograph;

/// Reason why a URL is rejected, or reported for existing records.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlFault {
    /// Not UTF-8.
    #[error("is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        at: usize,
    },
    /// Control character, which could split a response header.
    #[error("has the control character U+{:04X} at byte {at}", u32::from(*character))]
    Control {
        /// Control character.
        character: char,
        /// Byte offset of the character.
        at: usize,
    },
    /// URL too long.
    #[error("has {length} bytes, at most {limit} are taken")]
    TooLong {
        /// Length in bytes.
        length: usize,
        /// Maximum length.
        limit: usize,
    },
    /// Relative URL: it would be resolved against the page that shows it.
    #[error("is relative: it needs a scheme such as `https:`")]
    Relative,
    /// Scheme that runs code or reads local files.
    #[error("has the scheme `{scheme}`, which is not taken")]
    Scheme {
        /// Blocked scheme.
        scheme: Box<str>,
    },
    /// Missing host.
    #[error("names no host")]
    NoHost,
    /// Credentials before the host, which disguise the host or disclose a password.
    #[error("has a user name or password before the host")]
    Credentials,
    /// Homograph in the host name.
    #[error("has `{label}` in its host, which has letters that look like others")]
    Homograph {
        /// Label of the host name, as written.
        label: Box<str>,
    },
}

impl UrlFault {
    /// Stable code of the fault, for reports.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not-utf8",
            Self::Control { .. } => "control",
            Self::TooLong { .. } => "too-long",
            Self::Relative => "relative",
            Self::Scheme { .. } => "scheme",
            Self::NoHost => "no-host",
            Self::Credentials => "credentials",
            Self::Homograph { .. } => "homograph",
        }
    }

    /// Whether the URL could inject a response header.
    pub const fn is_header_injection(&self) -> bool {
        matches!(self, Self::Control { character: '\r' | '\n' | '\0', .. })
    }
}

/// Schemes that run code or read files on the user's machine.
const BLOCKED_SCHEMES: [&str; 4] = ["javascript", "data", "vbscript", "file"];

/// Schemes whose URLs must have a host.
const SCHEMES_WITH_HOST: [&str; 4] = ["http", "https", "ftp", "ftps"];

/// Checks a URL; the most severe fault is reported.
pub(super) fn check_url(data: &[u8], limit: usize) -> Result<(), UrlFault> {
    // Checked on bytes, because header injection does not depend on the encoding.
    let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | b'\0');
    if let Some(at) = data.iter().position(breaks) {
        let character = data.get(at).copied().unwrap_or_default().into();
        return Err(UrlFault::Control { character, at });
    }
    let text = str::from_utf8(data).map_err(|error| UrlFault::NotUtf8 { at: error.valid_up_to() })?;
    if let Some((at, character)) = text.char_indices().find(|(_, character)| character.is_control()) {
        return Err(UrlFault::Control { character, at });
    }
    let url = Url::from_bytes(data).map_err(|_| UrlFault::NotUtf8 { at: 0 })?;
    let scheme = url.scheme().ok_or(UrlFault::Relative)?;
    let is = |known: &&str| scheme.eq_ignore_ascii_case(known);
    if BLOCKED_SCHEMES.iter().any(is) {
        return Err(UrlFault::Scheme { scheme: scheme.into() });
    }
    if text.len() > limit {
        return Err(UrlFault::TooLong { length: text.len(), limit });
    }
    if SCHEMES_WITH_HOST.iter().any(is) {
        check_url_host(text.get(scheme.len() + 1..).unwrap_or_default())?;
    }
    Ok(())
}

fn check_url_host(after_scheme: &str) -> Result<(), UrlFault> {
    let after = after_scheme.strip_prefix("//").ok_or(UrlFault::NoHost)?;
    // Browsers end the authority at a backslash, too.
    let authority = after.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UrlFault::Credentials);
    }
    let host = authority.split(':').next().unwrap_or_default();
    if host.is_empty() {
        return Err(UrlFault::NoHost);
    }
    match find_homograph(host) {
        Some(label) => Err(UrlFault::Homograph { label: label.into() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        check_one("https://example.org/", "");
        check_one("HTTP://example.org:8080/a b?x=1&y=%20#é", "");
        check_one("https://example.org/例", "");
        check_one("https://example.org/a@b?c=@", "");
        check_one("ftp://example.org/x", "");
        check_one("mailto:a@example.org", "");
        check_one("urn:isbn:0", "");
        check_one("info:x", "");
        check_one("https://x/\r\nSet-Cookie:a=1", "has the control character U+000D at byte 10");
        check_one("https://x/\n", "has the control character U+000A at byte 10");
        check_one("https://x/\0", "has the control character U+0000 at byte 10");
        check_one("https://x/\t", "has the control character U+0009 at byte 10");
        check_one("https://x/\u{85}", "has the control character U+0085 at byte 10");
        check_one("javascript:alert(1)", "has the scheme `javascript`, which is not taken");
        check_one("JavaScript:alert(1)", "has the scheme `JavaScript`, which is not taken");
        check_one("data:text/html,x", "has the scheme `data`, which is not taken");
        check_one("vbscript:x", "has the scheme `vbscript`, which is not taken");
        check_one("file:///etc/passwd", "has the scheme `file`, which is not taken");
        check_one(" javascript:alert(1)", "is relative: it needs a scheme such as `https:`");
        check_one(" java\tscript:alert(1)", "has the control character U+0009 at byte 5");
        check_one("java\u{200b}script:alert(1)", "is relative: it needs a scheme such as `https:`");
        check_one("u", "is relative: it needs a scheme such as `https:`");
        check_one("", "is relative: it needs a scheme such as `https:`");
        check_one("//example.org/", "is relative: it needs a scheme such as `https:`");
        check_one("/a:b", "is relative: it needs a scheme such as `https:`");
        check_one("https:example.org", "names no host");
        check_one("https:///x", "names no host");
        check_one("https://:80/", "names no host");
        check_one("https://user:secret@example.org/", "has a user name or password before the host");
        check_one("https://example.org@evil.example/", "has a user name or password before the host");
        check_one("https://[2001:db8::1]:80/", "");
        check_one("https://bücher.example:8080/", "");
        let looks = "which has letters that look like others";
        check_one("https://\u{430}pple.example:80/x", &format!("has `\u{430}pple` in its host, {looks}"));
        check_one("https://xn--pple-43d.example", &format!("has `xn--pple-43d` in its host, {looks}"));
        check_one("https://example.org/\u{430}pple", "");
        let long = format!("https://example.org/{}", "x".repeat(100_000));
        check_one(&long, "has 100020 bytes, at most 2048 are taken");
        check_one(&long[..2_048], "");
        check_one(&long[..2_049], "has 2049 bytes, at most 2048 are taken");
        assert_eq!(check_url(b"https://x/\xff", 2_048), Err(UrlFault::NotUtf8 { at: 10 }));
        assert!(check_url(b"\xff\r", 2_048).unwrap_err().is_header_injection());
    }

    #[track_caller]
    fn check_one(url: &str, fault: &str) {
        let found =
            check_url(url.as_bytes(), 2_048).map_or_else(|fault| fault.to_string(), |()| String::new());
        assert_eq!(found, fault, "{url}");
    }
}
