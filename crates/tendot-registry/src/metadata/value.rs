//! Texts, dates, languages and addresses: read once, right ever after.

use super::fault::MetadataFaultCode;
use super::node::MetadataNode;
use super::read::{MetadataElement, MetadataReader, excerpt};

/// Bytes of a text.
const MAX_TEXT_BYTES: usize = 4_096;
/// Bytes of the code of a language.
const MAX_LANGUAGE_BYTES: usize = 64;

/// Declares a text with a form.
macro_rules! form {
    ($(#[$doc:meta])* $name:ident, $is:expr, $code:ident, $what:literal, $any:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(super) struct $name(Box<str>);

        impl $name {
            pub(super) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl MetadataElement for $name {
            fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
                let text = plain_text(node, reader)?;
                if !$is(&text) {
                    reader.report(MetadataFaultCode::$code, format!("`{}` is not {}", excerpt(&text), $what), &[]);
                    return None;
                }
                Some(Self(text))
            }

            fn to_node(&self) -> MetadataNode<'_> {
                MetadataNode::text(self.as_str())
            }

            #[cfg(test)]
            fn arbitrary(choices: &mut super::tests::ArbitraryInput) -> Self {
                Self((*choices.of::<&str>(&$any)).into())
            }
        }
    };
}

form! {
    /// A language (RFC 5646, as far as XML Schema checks it).
    Language, is_language, NotALanguage, "the code of a language, like `en` or `pt-BR`", ["en", "pt-BR", "i-navajo"]
}

form! {
    /// A day, in the form of XML Schema.
    Day, is_date, NotADate, "a date like `2026-11-16`", ["2026-11-16", "1999-01-01Z", "2024-02-29+01:00"]
}

form! {
    /// A year, month, day or time, in the forms of XML Schema.
    Moment, is_partial_date, NotADate, "a year, month, date or time like `2026`, `2026-11`, `2026-11-16` or `2026-11-16T12:00:00Z`",
    ["2026", "2026-11", "2026-11-16", "-0044-03-15", "2026-11-16T23:59:59.5Z", "2026-11-16T00:00:00+01:00", "2026+01:00"]
}

form! {
    /// An address or another name that begins with a scheme.
    Uri, is_uri, NotAUri, "a URI", ["https://doi.org/10.1000/182", "urn:isbn:1", "x:\u{E9}&<>'\""]
}

/// Text: not empty, trimmed, only XML characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NonEmptyText(Box<str>);

impl NonEmptyText {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl MetadataElement for NonEmptyText {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        plain_text(node, reader).map(Self)
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::text(self.as_str())
    }

    #[cfg(test)]
    fn arbitrary(choices: &mut super::tests::ArbitraryInput) -> Self {
        Self(choices.text().into())
    }
}

/// True or false; XML also says 1 and 0.
impl MetadataElement for bool {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        match (&node, reader.is_json()) {
            (MetadataNode::Flag(flag), _) => Some(*flag),
            (MetadataNode::Text(text), false) if matches!(text.trim(), "true" | "1") => Some(true),
            (MetadataNode::Text(text), false) if matches!(text.trim(), "false" | "0") => Some(false),
            _ => {
                reader.report_wrong_type(&node, "true or false");
                None
            }
        }
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::Flag(*self)
    }

    #[cfg(test)]
    fn arbitrary(choices: &mut super::tests::ArbitraryInput) -> Self {
        choices.next() % 2 == 1
    }
}

/// A number.
impl MetadataElement for u32 {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        let number = match (&node, reader.is_json()) {
            (MetadataNode::Number(number), _) => Self::try_from(*number).ok(),
            (MetadataNode::Text(text), false) => text.trim().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            reader.report_wrong_type(&node, "a number up to 4294967295");
        }
        number
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::Number((*self).into())
    }

    #[cfg(test)]
    fn arbitrary(choices: &mut super::tests::ArbitraryInput) -> Self {
        choices.next().into()
    }
}

/// A text without white space around it, of characters that XML has too.
fn plain_text(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Box<str>> {
    let text = reader.expect_text(node)?;
    let trimmed = text.trim();
    if trimmed.is_empty() {
        reader.report(MetadataFaultCode::Empty, "the text is empty".to_owned(), &[]);
        return None;
    }
    if trimmed.len() > MAX_TEXT_BYTES {
        let message = format!("{} bytes are too many, at most {MAX_TEXT_BYTES} are taken", trimmed.len());
        reader.report(MetadataFaultCode::TooLong, message, &[]);
        return None;
    }
    // Almost every text has neither kind of byte.
    let is_odd = |byte: u8| byte < 0x20 || byte == 0xEF;
    if let Some(odd) =
        trimmed.bytes().any(is_odd).then(|| trimmed.chars().find(|c| !is_xml_char(*c))).flatten()
    {
        let message = format!("U+{:04X} is no character of XML", u32::from(odd));
        reader.report(MetadataFaultCode::NotACharacter, message, &[]);
        return None;
    }
    Some(trimmed.into())
}

/// Whether XML 1.0 can say it (its section 2.2).
pub(super) fn is_xml_char(found: char) -> bool {
    matches!(found, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let fits = |part: &str| (1..=8).contains(&part.len());
    text.len() <= MAX_LANGUAGE_BYTES
        && parts
            .next()
            .is_some_and(|first| fits(first) && first.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && parts.all(|part| fits(part) && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && !rest.contains(|found: char| found.is_whitespace() || found.is_control())
}

fn is_date(text: &str) -> bool {
    DateParts::parse(text).is_some_and(|parts| parts.day.is_some() && !parts.has_time)
}

fn is_partial_date(text: &str) -> bool {
    DateParts::parse(text).is_some()
}

/// Year, month and day of a partial date.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DateParts {
    /// Before the first one: negative, as XML Schema counts.
    pub(super) year: i32,
    pub(super) month: Option<u32>,
    pub(super) day: Option<u32>,
    has_time: bool,
}

impl DateParts {
    fn parse(text: &str) -> Option<Self> {
        let text = strip_timezone(text)?;
        let (text, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
        let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
        let mut parts = date.split('-');
        let year = i32::try_from(parse_digits(parts.next()?, 4, 1..=9999)?).ok()? * sign;
        let month = parts.next().map(|text| parse_digits(text, 2, 1..=12).ok_or(())).transpose().ok()?;
        let last = month.map_or(0, |month| days_in_month(year, month));
        let day = parts.next().map(|text| parse_digits(text, 2, 1..=last).ok_or(())).transpose().ok()?;
        let time_fits = time.is_none_or(|time| day.is_some() && is_time(time));
        (parts.next().is_none() && time_fits).then_some(Self { year, month, day, has_time: time.is_some() })
    }
}

impl Moment {
    /// What it says, as far as citations say it.
    pub(super) fn parts(&self) -> Option<DateParts> {
        DateParts::parse(&self.0)
    }
}

fn parse_digits(text: &str, count: usize, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten().filter(|number| range.contains(number))
}

fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `hh:mm:ss` with or without a fraction.
fn is_time(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').map_or((text, "0"), |(whole, fraction)| (whole, fraction));
    let mut parts = whole.split(':');
    let mut next = |last| parts.next().and_then(|text| parse_digits(text, 2, 0..=last)).is_some();
    next(23)
        && next(59)
        && next(59)
        && parts.next().is_none()
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text before `Z` or `+01:00`, if the zone is one.
fn strip_timezone(text: &str) -> Option<&str> {
    if let Some(text) = text.strip_suffix('Z') {
        return Some(text);
    }
    let Some((before, zone)) = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)) else {
        return Some(text);
    };
    let Some((hours, minutes)) = zone.get(1..).and_then(|zone| zone.split_once(':')) else {
        return Some(text);
    };
    if !zone.starts_with(['+', '-']) {
        return Some(text);
    }
    let fits = parse_digits(hours, 2, 0..=14).is_some() && parse_digits(minutes, 2, 0..=59).is_some();
    fits.then_some(before)
}
