//! XML Schema dates and partial dates.

use jiff::civil::Date;
use serde_json::Value;

use super::text::{plain_text, text_type};
use crate::metadata::codec::node::MetadataNode;
use crate::metadata::codec::reader::{MetadataElement, MetadataReader, excerpt};
use crate::metadata::fault::MetadataFaultCode;
use crate::metadata::schema::{self, SchemaSet};

text_type! {
    /// `xs:date`.
    XsdDate, is_date, "^-?[0-9]{4}-[0-9]{2}-[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})?$", InvalidDate, "invalid date `{}`; expected YYYY-MM-DD", ["2026-11-16", "1999-01-01Z", "2024-02-29+01:00"]
}

text_type! {
    /// `xs:gYear`, `xs:gYearMonth`, `xs:date` or `xs:dateTime`.
    XsdPartialDate, is_partial_date,
    "^-?[0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?)?)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$", InvalidDate, "invalid date `{}`; expected YYYY, YYYY-MM, YYYY-MM-DD or a date and time",
    ["2026", "2026-11", "2026-11-16", "-0044-03-15", "2026-11-16T23:59:59.5Z", "2026-11-16T00:00:00+01:00", "2026+01:00"]
}

fn is_date(text: &str) -> bool {
    DateParts::parse(text).is_some_and(|parts| parts.day.is_some() && !parts.has_time)
}

fn is_partial_date(text: &str) -> bool {
    DateParts::parse(text).is_some()
}

/// Year, month and day of a partial date.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::metadata) struct DateParts {
    /// Negative for years before 1, as in XML Schema.
    pub(in crate::metadata) year: i32,
    pub(in crate::metadata) month: Option<u32>,
    pub(in crate::metadata) day: Option<u32>,
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
        let day = parts.next().map(|text| parse_digits(text, 2, 1..=31).ok_or(())).transpose().ok()?;
        if let (Some(month), Some(day)) = (month, day) {
            Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
        }
        let time_fits = time.is_none_or(|time| day.is_some() && is_time(time));
        (parts.next().is_none() && time_fits).then_some(Self { year, month, day, has_time: time.is_some() })
    }
}

impl XsdPartialDate {
    /// Year, month and day, for citations.
    pub(in crate::metadata) fn parts(&self) -> Option<DateParts> {
        DateParts::parse(&self.0)
    }
}

fn parse_digits(text: &str, count: usize, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten().filter(|number| range.contains(number))
}

/// Whether a text is `hh:mm:ss` with an optional fraction.
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

/// Removes the time zone `Z` or `+01:00`; `None` if the zone is invalid.
fn strip_timezone(text: &str) -> Option<&str> {
    if let Some(text) = text.strip_suffix('Z') {
        return Some(text);
    }
    let Some((before, zone)) = text.len().checked_sub(6).and_then(|position| text.split_at_checked(position))
    else {
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
