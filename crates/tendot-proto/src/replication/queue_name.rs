//! Names of transaction queues.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Name of a transaction queue: server index and site, `0:1:0.NA/10` or `0:sources`.
///
/// ```
/// use tendot_proto::replication::QueueName;
///
/// let name: QueueName = "2:1:0.NA/10".parse()?;
/// assert_eq!((name.server, &*name.site), (2, "1:0.NA/10"));
/// assert_eq!(name.to_string(), "2:1:0.NA/10");
/// assert!("sources".parse::<QueueName>().is_err());
/// # Ok::<(), tendot_proto::replication::QueueNameError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueName {
    /// Name of the site.
    pub site: String,
    /// Index of the server in its site.
    pub server: u16,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server, self.site)
    }
}

/// Accepts only the canonical form: a source must not have two names.
impl FromStr for QueueName {
    type Err = QueueNameError;

    fn from_str(text: &str) -> Result<Self, QueueNameError> {
        let (server, site) = text.split_once(':').ok_or(QueueNameError::MissingColon)?;
        let is_digits = server.bytes().all(|byte| byte.is_ascii_digit());
        let is_canonical = server == "0" || !server.starts_with('0');
        match server.parse() {
            Ok(server) if is_digits && is_canonical => Ok(Self { site: site.into(), server }),
            _ => Err(QueueNameError::InvalidServerIndex),
        }
    }
}

/// Invalid queue name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueNameError {
    /// The colon is missing.
    #[error("invalid queue name: missing `:`")]
    MissingColon,
    /// The server index is not an integer below 65536 in canonical form.
    #[error("invalid queue name: invalid server index")]
    InvalidServerIndex,
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn names() {
        check("0:sources", Ok((0, "sources")));
        check("12:1:0.NA/10", Ok((12, "1:0.NA/10")));
        check("65535:", Ok((65535, "")));
        check("65536:a", Err(QueueNameError::InvalidServerIndex));
        check("00:a", Err(QueueNameError::InvalidServerIndex));
        check("01:a", Err(QueueNameError::InvalidServerIndex));
        check("+1:a", Err(QueueNameError::InvalidServerIndex));
        check("-1:a", Err(QueueNameError::InvalidServerIndex));
        check(":a", Err(QueueNameError::InvalidServerIndex));
        check("0", Err(QueueNameError::MissingColon));
        check("", Err(QueueNameError::MissingColon));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<(u16, &str), QueueNameError>) {
        let name = text.parse::<QueueName>();
        let parts = name.as_ref().map(|name| (name.server, &*name.site)).map_err(|error| *error);
        assert_eq!(parts, expected, "{text}");
        if let Ok(name) = name {
            assert_eq!(name.to_string(), text);
        }
    }
}
