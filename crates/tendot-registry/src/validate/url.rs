//! Checks of `URL` values and of other redirect targets: scheme, host, credentials.

use tendot_proto::record::Url;
use url::{Host, ParseError};

use super::hostname::find_homograph;

/// Reason why a URL is rejected, or reported for existing records.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlFault {
    /// Not UTF-8.
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// Control character, which could split a response header.
    #[error("control character U+{:04X} at byte {offset}", u32::from(*character))]
    ControlCharacter {
        /// Control character.
        character: char,
        /// Byte offset of the character.
        offset: usize,
    },
    /// URL too long.
    #[error("{length} bytes (maximum {limit})")]
    TooLong {
        /// Length in bytes.
        length: usize,
        /// Maximum length.
        limit: usize,
    },
    /// Relative URL: it would be resolved against the page that shows it.
    #[error("relative URL; add a scheme such as `https:`")]
    Relative,
    /// Scheme that runs code or reads local files.
    #[error("scheme `{scheme}` is not allowed")]
    SchemeNotAllowed {
        /// Blocked scheme.
        scheme: Box<str>,
    },
    /// Missing host.
    #[error("missing host")]
    MissingHost,
    /// Host or port that browsers reject.
    #[error("invalid host or port")]
    InvalidHost,
    /// Credentials before the host, which disguise the host or disclose a password.
    #[error("credentials in the URL")]
    Credentials,
    /// Homograph in the host name.
    #[error("host label `{label}` is a homograph")]
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
            Self::ControlCharacter { .. } => "control-character",
            Self::TooLong { .. } => "too-long",
            Self::Relative => "relative",
            Self::SchemeNotAllowed { .. } => "scheme-not-allowed",
            Self::MissingHost => "missing-host",
            Self::InvalidHost => "invalid-host",
            Self::Credentials => "credentials",
            Self::Homograph { .. } => "homograph",
        }
    }
}

/// Schemes that run code or read files on the user's machine.
const BLOCKED_SCHEMES: [&str; 4] = ["javascript", "data", "vbscript", "file"];

/// Whether URLs of a scheme are never followed.
pub fn is_blocked_scheme(scheme: &str) -> bool {
    BLOCKED_SCHEMES.iter().any(|blocked| scheme.eq_ignore_ascii_case(blocked))
}

/// Schemes whose URLs must have a host.
const SCHEMES_WITH_HOST: [&str; 4] = ["http", "https", "ftp", "ftps"];

/// Checks a URL; the most severe fault is reported.
pub(super) fn check_url(data: &[u8], limit: usize) -> Result<(), UrlFault> {
    // Checked on bytes, because header injection does not depend on the encoding.
    let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | b'\0');
    if let Some(offset) = data.iter().position(breaks) {
        let character = data.get(offset).copied().unwrap_or_default().into();
        return Err(UrlFault::ControlCharacter { character, offset });
    }
    let text = str::from_utf8(data).map_err(|error| UrlFault::NotUtf8 { offset: error.valid_up_to() })?;
    if let Some((offset, character)) = text.char_indices().find(|(_, character)| character.is_control()) {
        return Err(UrlFault::ControlCharacter { character, offset });
    }
    let url = Url::from_bytes(data).map_err(|_| UrlFault::NotUtf8 { offset: 0 })?;
    let scheme = url.scheme().ok_or(UrlFault::Relative)?;
    let is = |known: &&str| scheme.eq_ignore_ascii_case(known);
    if is_blocked_scheme(scheme) {
        return Err(UrlFault::SchemeNotAllowed { scheme: scheme.into() });
    }
    if text.len() > limit {
        return Err(UrlFault::TooLong { length: text.len(), limit });
    }
    if !SCHEMES_WITH_HOST.iter().any(is) {
        return Ok(());
    }
    match check_host(text) {
        // Handle.Net stores such URLs; browsers show an error.
        Err(UrlFault::InvalidHost) | Ok(_) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Checks what a redirect to an address discloses or disguises: credentials and homographs. Addresses that are never followed
/// pass.
pub(super) fn check_target(address: &str) -> Result<(), UrlFault> {
    match check_host(address) {
        Err(fault @ (UrlFault::Credentials | UrlFault::Homograph { .. })) => Err(fault),
        _ => Ok(()),
    }
}

/// Finds the host of an address and checks it for homographs.
fn check_host(address: &str) -> Result<Host, UrlFault> {
    let host = url_host(address)?;
    match &host {
        Host::Domain(domain) => match find_homograph(domain) {
            Some(label) => Err(UrlFault::Homograph { label: label.into() }),
            None => Ok(host),
        },
        _ => Ok(host),
    }
}

/// Finds the host to which browsers connect (WHATWG URL): lower case, percent-decoded, in punycode, numbers as IPv4 address.
///
/// Every policy uses this function. Addresses whose host a reader may mistake are rejected: with credentials, control
/// characters, which browsers remove, or without `//`, which browsers resolve against the page.
///
/// ```
/// use tendot_registry::{UrlFault, url_host};
///
/// assert_eq!(url_host("https://EXAMPLE%2eorg:8443\\@evil.example/").unwrap().to_string(), "example.org");
/// assert_eq!(url_host("https://example.org:x@evil.example/"), Err(UrlFault::Credentials));
/// ```
pub fn url_host(address: &str) -> Result<Host, UrlFault> {
    let address = address.trim();
    if let Some((offset, character)) = address.char_indices().find(|(_, character)| character.is_control()) {
        return Err(UrlFault::ControlCharacter { character, offset });
    }
    let (_, after_scheme) = address.split_once(':').ok_or(UrlFault::Relative)?;
    let after = after_scheme.strip_prefix("//").ok_or(UrlFault::MissingHost)?;
    // Also empty user information and, for schemes that do not know it, before a backslash.
    let authority = after.split(['/', '?', '#']).next().unwrap_or_default();
    let before_backslash = authority.split('\\').next().unwrap_or_default();
    if before_backslash.is_empty() || before_backslash.starts_with(':') {
        return Err(UrlFault::MissingHost);
    }
    if before_backslash.contains('@') {
        return Err(UrlFault::Credentials);
    }
    let parsed = url::Url::parse(address).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => UrlFault::Relative,
        ParseError::EmptyHost => UrlFault::MissingHost,
        _ => UrlFault::InvalidHost,
    })?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(UrlFault::Credentials);
    }
    match parsed.host().ok_or(UrlFault::MissingHost)? {
        // Hosts of schemes that browsers do not know, such as `ftps`, are not normalized yet.
        Host::Domain(domain) => Host::parse(domain).map_err(|_| UrlFault::InvalidHost),
        host => Ok(host.to_owned()),
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
        check_one("https://x/\r\nSet-Cookie:a=1", "control character U+000D at byte 10");
        check_one("https://x/\n", "control character U+000A at byte 10");
        check_one("https://x/\0", "control character U+0000 at byte 10");
        check_one("https://x/\t", "control character U+0009 at byte 10");
        check_one("https://x/\u{85}", "control character U+0085 at byte 10");
        check_one("javascript:alert(1)", "scheme `javascript` is not allowed");
        check_one("JavaScript:alert(1)", "scheme `JavaScript` is not allowed");
        check_one("data:text/html,x", "scheme `data` is not allowed");
        check_one("vbscript:x", "scheme `vbscript` is not allowed");
        check_one("file:///etc/passwd", "scheme `file` is not allowed");
        check_one(" javascript:alert(1)", "relative URL; add a scheme such as `https:`");
        check_one(" java\tscript:alert(1)", "control character U+0009 at byte 5");
        check_one("java\u{200b}script:alert(1)", "relative URL; add a scheme such as `https:`");
        check_one("u", "relative URL; add a scheme such as `https:`");
        check_one("", "relative URL; add a scheme such as `https:`");
        check_one("//example.org/", "relative URL; add a scheme such as `https:`");
        check_one("/a:b", "relative URL; add a scheme such as `https:`");
        check_one("https:example.org", "missing host");
        check_one("https:///x", "missing host");
        check_one("https://:80/", "missing host");
        check_one("https://user:secret@example.org/", "credentials in the URL");
        check_one("https://example.org@evil.example/", "credentials in the URL");
        check_one("https://[2001:db8::1]:80/", "");
        check_one("https://bücher.example:8080/", "");

        check_one("https://\u{430}pple.example:80/x", "host label `xn--pple-43d` is a homograph");
        check_one("https://%D0%B0pple.example:80/x", "host label `xn--pple-43d` is a homograph");
        check_one("https://xn--pple-43d.example", "host label `xn--pple-43d` is a homograph");
        check_one("https://example.org/\u{430}pple", "");
        let long = format!("https://example.org/{}", "x".repeat(100_000));
        check_one(&long, "100020 bytes (maximum 2048)");
        check_one(&long[..2_048], "");
        check_one(&long[..2_049], "2049 bytes (maximum 2048)");
        assert_eq!(check_url(b"https://x/\xff", 2_048), Err(UrlFault::NotUtf8 { offset: 10 }));
        assert!(matches!(
            check_url(b"\xff\r", 2_048),
            Err(UrlFault::ControlCharacter { character: '\r', .. })
        ));
    }

    /// Hosts as browsers find them (WHATWG URL), which no other reading of the address may contradict.
    #[test]
    fn audit_f17_hosts() {
        let check = |address: &str, expected: &str| {
            let found = url_host(address).map_or_else(|fault| fault.to_string(), |host| host.to_string());
            assert_eq!(found, expected, "{address}");
        };
        check("https://example.org/", "example.org");
        check(" HTTPS://EXAMPLE.Org:8443/x ", "example.org");
        check("https://example.org./x", "example.org.");
        check("https://example%2Eorg/", "example.org");
        check("https://\u{ff45}xample\u{3002}org/", "example.org");
        check("https://b\u{fc}cher.example/", "xn--bcher-kva.example");
        check("https://b%C3%BCcher.example/", "xn--bcher-kva.example");
        check("https://[2001:DB8:0::1]:80/", "[2001:db8::1]");
        check("https://0x7f.1/", "127.0.0.1");
        check("https://2130706433/", "127.0.0.1");
        check("https://example.org\\@evil.example/", "example.org");
        check("https://evil.example\\.example.org/", "evil.example");
        check("https://evil.example?@example.org/", "evil.example");
        check("https://evil.example#@example.org/", "evil.example");
        check("ftps://EXAMPLE%2Eorg/", "example.org");
        let credentials = "credentials in the URL";
        check("https://example.org:x@evil.example/", credentials);
        check("https://example.org@evil.example/", credentials);
        check("https://@evil.example/", credentials);
        check("https://:@evil.example/", "missing host");
        check("https://a@b@evil.example/", credentials);
        check("ftps://example.org@evil.example/", credentials);
        check("ftps://example.org\\@evil.example/", credentials);
        check("https://example.org\t@evil.example/", "control character U+0009 at byte 19");
        check("https:/\n/evil.example/", "control character U+000A at byte 7");
        check("https:evil.example", "missing host");
        check("https:\\\\evil.example", "missing host");
        check("https:///evil.example", "missing host");
        check("https://evil.example%2F.example.org/", "invalid host or port");
        check("https://evil.example%5C.example.org/", "invalid host or port");
        check("https://example.org:x/", "invalid host or port");
        check("https://example.org%00.evil.example/", "invalid host or port");
        check("//evil.example/", "relative URL; add a scheme such as `https:`");
        check("mailto:a@example.org", "missing host");
    }

    #[track_caller]
    fn check_one(url: &str, fault: &str) {
        let found =
            check_url(url.as_bytes(), 2_048).map_or_else(|fault| fault.to_string(), |()| String::new());
        assert_eq!(found, fault, "{url}");
    }
}
