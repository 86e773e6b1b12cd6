//! RFC 3339 dates of values.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde::{Serialize, Serializer};

use super::{JsonError, JsonNode};

/// Unix time in seconds, as RFC 3339 text.
pub(super) struct JsonDate(pub(super) u32);

impl Serialize for JsonDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Without a formatter, for speed: every value has a date.
        let date = Offset::UTC.to_datetime(Timestamp::from_second(self.0.into()).unwrap_or_default());
        let (century, year) = ((date.year() / 100) as i8, (date.year() % 100) as i8);
        let numbers = [century, year, date.month(), date.day(), date.hour(), date.minute(), date.second()];
        let mut text = *b"0000-00-00T00:00:00Z";
        for (offset, number) in [0, 2, 5, 8, 11, 14, 17].into_iter().zip(numbers) {
            if let Some(digits) = text.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
                *digits = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            }
        }
        serializer.serialize_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}

impl JsonDate {
    pub(super) fn from_node(node: &JsonNode<'_, '_>) -> Result<Self, JsonError> {
        Self::parse(node.string()?).map(Self).ok_or_else(|| {
            node.expected("an RFC 3339 timestamp from 1970 to 2106, such as 2024-01-02T03:04:05Z")
        })
    }

    /// Parses a date to Unix time in seconds.
    pub(super) fn parse(text: &str) -> Option<u32> {
        u32::try_from(text.parse::<Timestamp>().ok()?.as_second()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        check(0, "1970-01-01T00:00:00Z");
        check(0x6400_0000, "2023-03-02T01:46:40Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(u32::MAX, "2106-02-07T06:28:15Z");
    }

    #[track_caller]
    fn check(seconds: u32, text: &str) {
        let json = serde_json::to_value(JsonDate(seconds)).unwrap();
        assert_eq!(json, text);
        assert_eq!(JsonDate::from_node(&JsonNode::new(&json)).unwrap().0, seconds);
    }

    #[test]
    fn other_dates() {
        let parse = |text: &str| JsonDate::from_node(&JsonNode::new(&text.into())).ok().map(|date| date.0);
        assert_eq!(parse("1970-01-01T01:00:01.999+01:00"), Some(1));
        assert_eq!(parse("1969-12-31T23:59:58Z"), None);
        assert_eq!(parse("2106-02-07T06:28:16Z"), None);
        assert_eq!(parse("86400"), None);
    }
}
