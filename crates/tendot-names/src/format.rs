//! Output forms and their display adapter.

use core::fmt::{self, Write as _};

use crate::Doi;
use crate::percent::{AsciiUppercaseWriter, UnencodedSet, write_percent_encoded};
use crate::syntax::prefix_and_suffix;

/// Output form of a DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OutputForm {
    /// Bare DOI in its input spelling.
    Bare,
    /// ASCII letters in upper case: the comparison key (Z39.84 section 4).
    Canonical,
    /// `doi:` URI of the June 2024 draft: every byte that is neither unreserved nor `/` is percent-encoded.
    Uri,
    /// `doi:` URI as published in November 2024: slashes inside the suffix are encoded, characters such as `(` and `:`
    /// are not.
    Uri202411,
    /// Canonical `doi:` URI of the 2003 draft, in upper case.
    Uri2003,
    /// `urn:doi:`.
    Urn,
    /// `https://doi.org/…`, readable: encodes tables 1 and 2 of Z39.84, `?` and non-ASCII characters.
    Url,
    /// `https://doi.org/…`, minimal: encodes table 1 of Z39.84, `?` and non-ASCII characters.
    UrlMinimal,
    /// `https://doi.org/…` encoded as in [`OutputForm::Uri`].
    UrlFull,
    /// `info:doi/`.
    Info,
    /// `doi:` and the bare DOI, as ISO 26324 displays it.
    Display,
    /// `urn:eidr:`, for prefixes of the Entertainment ID Registry.
    Eidr,
    /// HTML link to [`OutputForm::Url`] with the text of [`OutputForm::Display`].
    Html,
}

impl OutputForm {
    /// All output forms.
    pub const ALL: [Self; 13] = [
        Self::Bare,
        Self::Canonical,
        Self::Uri,
        Self::Uri202411,
        Self::Uri2003,
        Self::Urn,
        Self::Url,
        Self::UrlMinimal,
        Self::UrlFull,
        Self::Info,
        Self::Display,
        Self::Eidr,
        Self::Html,
    ];

    /// Stable code, as used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "name",
            Self::Canonical => "canonical",
            Self::Uri => "uri",
            Self::Uri202411 => "uri-2024-11",
            Self::Uri2003 => "uri-2003",
            Self::Urn => "urn",
            Self::Url => "url",
            Self::UrlMinimal => "url-minimal",
            Self::UrlFull => "url-full",
            Self::Info => "info",
            Self::Display => "display",
            Self::Eidr => "eidr",
            Self::Html => "html",
        }
    }
}

impl Doi {
    /// Formats the DOI in an output form; `None` for [`OutputForm::Eidr`] unless it has an EIDR prefix.
    ///
    /// The result implements `Display` and does not allocate.
    ///
    /// ```
    /// use tendot_names::{OutputForm, Doi};
    ///
    /// // URN registration, "Character set"
    /// let doi = Doi::new("10.1000/456#789")?;
    /// assert_eq!(doi.format(OutputForm::Url).unwrap().to_string(), "https://doi.org/10.1000/456%23789");
    /// assert_eq!(doi.format(OutputForm::Urn).unwrap().to_string(), "urn:doi:10.1000/456%23789");
    /// assert!(doi.format(OutputForm::Eidr).is_none());
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn format(&self, form: OutputForm) -> Option<FormDisplay<'_>> {
        FormDisplay::new(self.as_str(), form)
    }

    /// `doi:` URI.
    ///
    /// ```
    /// use tendot_names::Doi;
    ///
    /// // 2024 draft, section 2, example 2
    /// let doi = Doi::new("10.26321/Á.GUTIÉRREZ.ZARZA.02.2018.03")?;
    /// assert_eq!(doi.uri().to_string(), "doi:10.26321/%C3%81.GUTI%C3%89RREZ.ZARZA.02.2018.03");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn uri(&self) -> FormDisplay<'_> {
        FormDisplay { text: self.as_str(), form: OutputForm::Uri }
    }

    /// `urn:doi:` URN.
    ///
    /// ```
    /// # use tendot_names::Doi;
    /// // URN registration, "Character set"
    /// assert_eq!(Doi::new("10.1000/456#789")?.urn().to_string(), "urn:doi:10.1000/456%23789");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn urn(&self) -> FormDisplay<'_> {
        FormDisplay { text: self.as_str(), form: OutputForm::Urn }
    }

    /// Proxy URL.
    ///
    /// ```
    /// use tendot_names::Doi;
    ///
    /// // Z39.84 appendix E
    /// let doi = Doi::new("10.1006/rwei.1999\".0001")?;
    /// assert_eq!(doi.url().to_string(), "https://doi.org/10.1006/rwei.1999%22.0001");
    ///
    /// // A browser would remove `/../` from a URL, so one slash is encoded.
    /// let doi = Doi::new("10.1000/a/../b")?;
    /// assert_eq!(doi.url().to_string(), "https://doi.org/10.1000/a/..%2Fb");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn url(&self) -> FormDisplay<'_> {
        FormDisplay { text: self.as_str(), form: OutputForm::Url }
    }

    /// Canonical form: ASCII letters in upper case.
    ///
    /// ```
    /// # use tendot_names::Doi;
    /// assert_eq!(Doi::new("10.26321/á.b")?.canonical().to_string(), "10.26321/á.B");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn canonical(&self) -> FormDisplay<'_> {
        FormDisplay { text: self.as_str(), form: OutputForm::Canonical }
    }
}

/// `Display` adapter that writes a DOI in one output form without allocating.
#[derive(Clone, Copy, Debug)]
pub struct FormDisplay<'a> {
    text: &'a str,
    form: OutputForm,
}

impl<'a> FormDisplay<'a> {
    pub(crate) fn new(text: &'a str, form: OutputForm) -> Option<Self> {
        (form != OutputForm::Eidr || has_eidr_prefix(text)).then_some(Self { text, form })
    }
}

/// Whether the prefix belongs to the Entertainment ID Registry (EIDR).
fn has_eidr_prefix(text: &str) -> bool {
    matches!(prefix_and_suffix(text).0, "10.5237" | "10.5238" | "10.5239" | "10.5240")
}

impl fmt::Display for FormDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text;
        match self.form {
            OutputForm::Bare => f.write_str(text),
            OutputForm::Canonical => AsciiUppercaseWriter(f).write_str(text),
            OutputForm::Uri => write_with_scheme(f, "doi:", text, UnencodedSet::URI),
            OutputForm::Uri202411 => {
                let (prefix, suffix) = prefix_and_suffix(text);
                write_with_scheme(f, "doi:", prefix, UnencodedSet::URI_2024_11)?;
                write_with_scheme(f, "/", suffix, UnencodedSet::URI_2024_11)
            }
            OutputForm::Uri2003 => {
                f.write_str("doi:")?;
                write_percent_encoded(&mut AsciiUppercaseWriter(f), text, UnencodedSet::URI_2003)
            }
            OutputForm::Urn => write_with_scheme(f, "urn:doi:", text, UnencodedSet::URI),
            OutputForm::Url => write_proxy_url(f, text, UnencodedSet::URL),
            OutputForm::UrlMinimal => write_proxy_url(f, text, UnencodedSet::URL_MINIMAL),
            OutputForm::UrlFull => write_proxy_url(f, text, UnencodedSet::URI),
            OutputForm::Info => write_with_scheme(f, "info:doi/", text, UnencodedSet::URI),
            OutputForm::Display => {
                f.write_str("doi:")?;
                f.write_str(text)
            }
            OutputForm::Eidr => {
                let (prefix, suffix) = prefix_and_suffix(text);
                write_with_scheme(f, "urn:eidr:", prefix, UnencodedSet::EIDR)?;
                write_with_scheme(f, ":", suffix, UnencodedSet::EIDR)
            }
            OutputForm::Html => {
                f.write_str("<a href=\"")?;
                write_proxy_url(&mut HtmlEscapeWriter(&mut *f), text, UnencodedSet::URL)?;
                f.write_str("\">doi:")?;
                HtmlEscapeWriter(&mut *f).write_str(text)?;
                f.write_str("</a>")
            }
        }
    }
}

/// Writes `scheme`, or another delimiter, and the percent-encoded text.
fn write_with_scheme(
    out: &mut impl fmt::Write,
    scheme: &str,
    text: &str,
    unencoded: UnencodedSet,
) -> fmt::Result {
    out.write_str(scheme)?;
    write_percent_encoded(out, text, unencoded)
}

/// Writes a proxy URL.
///
/// Browsers remove dot segments (`.` and `..`), even percent-encoded ones. A slash next to one is therefore written as
/// `%2F`: the slash after it, or before it if it is the last segment.
fn write_proxy_url(out: &mut impl fmt::Write, text: &str, unencoded: UnencodedSet) -> fmt::Result {
    out.write_str("https://doi.org/")?;
    let mut rest = text;
    while let Some((segment, after)) = rest.split_once('/') {
        write_percent_encoded(out, segment, unencoded)?;
        let encodes_slash = is_dot_segment(segment) || is_dot_segment(after);
        out.write_str(if encodes_slash { "%2F" } else { "/" })?;
        rest = after;
    }
    write_percent_encoded(out, rest, unencoded)
}

/// Whether a path segment is a dot segment (RFC 3986 section 5.2.4).
fn is_dot_segment(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// `fmt::Write` adapter that escapes `& < > " '` for HTML.
struct HtmlEscapeWriter<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for HtmlEscapeWriter<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(plain_len) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, from) = rest.split_at(plain_len);
            self.0.write_str(plain)?;
            let mut characters = from.chars();
            self.0.write_str(match characters.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                _ => "&#39;",
            })?;
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}
