//! Access log: one line per request.

use std::fmt::{self, Write as _};
use std::time::Duration;

use http::{Method, Uri};

use crate::http::middleware::pipeline::RequestContext;
use crate::http::response::reply::Reply;

/// Text from a client, truncated and escaped for logs.
pub(crate) struct LogSafe<'a>(pub(crate) &'a str);

/// Longer text is truncated.
const MAX_LOGGED_BYTES: usize = 1 << 10;

impl fmt::Display for LogSafe<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (offset, c) in self.0.char_indices() {
            if offset >= MAX_LOGGED_BYTES {
                return formatter.write_char('…');
            }
            match c {
                '"' | '\'' | '\\' => formatter.write_char(c)?,
                _ => write!(formatter, "{}", c.escape_debug())?,
            }
        }
        Ok(())
    }
}

/// Writes the access log line. Queries and headers are left out: they may be private.
pub(crate) fn log_request(
    context: &RequestContext,
    method: &Method,
    uri: &Uri,
    response: &Reply,
    duration: Duration,
) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                method = %LogSafe(method.as_str()),
                path = %LogSafe(redacted_path(uri.path())),
                kind = context.kind.as_str(),
                status = response.status().as_u16(),
                bytes = response.body().len(),
                duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                client = %context.client.address,
                id = context.id.to_str().unwrap_or_default(),
                "request"
            )
        };
    }
    if response.status().is_server_error() {
        line!(tracing::Level::ERROR);
    } else {
        line!(tracing::Level::INFO);
    }
}

/// Path for the log, with session ids redacted: a session id is a credential.
fn redacted_path(path: &str) -> &str {
    if path.starts_with("/api/sessions/") { "/api/sessions/…" } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped() {
        assert_eq!(LogSafe("/10.1000/\"é'例").to_string(), "/10.1000/\"é'例");
        assert_eq!(LogSafe("a\x1B[2J\r\n\u{202E}").to_string(), "a\\u{1b}[2J\\r\\n\\u{202e}");
        assert_eq!(LogSafe(&"é".repeat(9_000)).to_string().chars().count(), 513);
    }
}
