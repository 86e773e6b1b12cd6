//! Unix time in seconds and milliseconds, and its text form.

use std::time::SystemTime;

use jiff::Timestamp;

/// Unix time in milliseconds; 0 before 1970.
pub(crate) fn to_unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Unix time in seconds; 0 before 1970.
pub(crate) fn to_unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats Unix milliseconds as `2024-01-02T03:04:05Z`.
pub(crate) fn format_millis(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    time.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps() {
        assert_eq!(format_millis(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_millis(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(format_millis(1_700_000_000_120), "2023-11-14T22:13:20.12Z");
        assert_eq!(format_millis(u64::MAX), "1970-01-01T00:00:00Z");
    }
}
