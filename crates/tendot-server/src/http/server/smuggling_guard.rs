//! Validation of HTTP/1 request heads against request smuggling: ambiguous heads are rejected.
//!
//! hyper accepts a bare LF as a line end, ignores `Content-Length` beside `Transfer-Encoding`, and accepts the same length
//! twice. A proxy in front may parse these differently. It also drops everything from `#` on in a request target, and rejects
//! some characters without a reason (`request_target.rs`). Such a head ends here: its last line is replaced by
//! [`INVALID_HEAD_END`], which no parser accepts. hyper responds at once with 400, `parse_error.rs` adds the reason or makes
//! it a redirect, and the connection is closed.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::http::server::request_target::{self, EncodedTarget, TargetFault};

/// End of a rejected head: completes it, so that the parser does not wait for the rest, and makes it invalid.
pub(crate) const INVALID_HEAD_END: &[u8] = b"\0\r\n\r\n";

/// Bytes of a request line that are buffered if it arrives in pieces; hyper rejects longer ones.
const MAX_REQUEST_LINE_BYTES: usize = 72 << 10;

/// Bytes of a line that are examined: longer than the relevant names and numbers.
const LINE_PREFIX_LEN: usize = 64;

/// First line of an HTTP/2 connection preface.
const HTTP2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r";

/// Line of a request head that is invalid, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HeadFault {
    pub(crate) line: u32,
    pub(crate) reason: Cow<'static, str>,
}

impl fmt::Display for HeadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// Streaming validator of HTTP/1 request heads against request smuggling (RFC 9112, section 11.2).
#[derive(Debug)]
pub(crate) struct HeadValidator {
    state: HeadState,
    line: [u8; LINE_PREFIX_LEN],
    /// Length of the current line; may exceed the bytes stored of it.
    length: usize,
    /// Whether the last byte was CR.
    ends_with_cr: bool,
    /// Whether the line contains control characters.
    has_controls: bool,
    is_first_line: bool,
    /// Whether the head follows another one in the same read, so that the response to that may not be written yet.
    is_pipelined: bool,
    /// Start of a request line that arrives in pieces.
    partial_request_line: Vec<u8>,
    /// Percent-encoded target of the last head, if the client should use that instead.
    redirect: Option<EncodedTarget>,
    /// Complete lines of the head.
    lines: u32,
    /// First fault found, also if hyper is the one to reject it.
    fault: Option<HeadFault>,
    is_first_request: bool,
    content_length_count: u8,
    content_length: u64,
    is_chunked: bool,
}

/// Parser state: before, in or after a head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HeadState {
    /// Before the first byte of a request.
    BeforeHead,
    InHead,
    /// Remaining bytes of a body.
    InBody(u64),
    /// No longer parsed: HTTP/2, or after a body whose end is unknown here.
    Unparsed,
}

impl HeadValidator {
    pub(crate) const fn new() -> Self {
        Self {
            state: HeadState::BeforeHead,
            line: [0; LINE_PREFIX_LEN],
            length: 0,
            ends_with_cr: false,
            has_controls: false,
            is_first_line: true,
            is_pipelined: false,
            partial_request_line: Vec::new(),
            redirect: None,
            lines: 0,
            fault: None,
            is_first_request: true,
            content_length_count: 0,
            content_length: 0,
            is_chunked: false,
        }
    }

    /// Whether a head has been received in part.
    pub(crate) fn is_in_head(&self) -> bool {
        self.state == HeadState::InHead
    }

    /// Fault of the last head, as far as known.
    pub(crate) fn fault(&self) -> Option<HeadFault> {
        let current = || HeadFault { line: self.lines + 1, reason: CONTROL_CHARACTERS.into() };
        self.fault.clone().or_else(|| self.has_controls.then(current)).or_else(|| {
            let reason = request_target::describe_fault(&self.partial_request_line)?;
            Some(HeadFault { line: self.lines + 1, reason })
        })
    }

    /// Redirect that the last head, which was rejected, is answered with.
    pub(crate) const fn redirect(&self) -> Option<&EncodedTarget> {
        self.redirect.as_ref()
    }

    /// Whether nothing has been received.
    pub(crate) fn has_received_nothing(&self) -> bool {
        self.is_first_request && self.state == HeadState::BeforeHead
    }

    /// Parses the next bytes. If a head is rejected, returns the number of bytes before the end of its last line; they are
    /// followed by [`INVALID_HEAD_END`] instead of the rest.
    pub(crate) fn inspect(&mut self, all: &[u8]) -> Option<usize> {
        let mut bytes = all;
        while !bytes.is_empty() {
            match self.state {
                HeadState::Unparsed => return None,
                HeadState::InBody(remaining) => {
                    let received = usize::try_from(remaining).unwrap_or(usize::MAX).min(bytes.len());
                    self.state = if remaining == received as u64 {
                        HeadState::BeforeHead
                    } else {
                        HeadState::InBody(remaining - received as u64)
                    };
                    bytes = bytes.get(received..).unwrap_or_default();
                }
                HeadState::BeforeHead => {
                    self.state = HeadState::InHead;
                    self.is_first_line = true;
                    self.is_pipelined = bytes.len() < all.len();
                    (self.content_length_count, self.content_length, self.is_chunked) = (0, 0, false);
                    (self.lines, self.fault, self.redirect) = (0, None, None);
                }
                HeadState::InHead => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.buffer_line(bytes);
                        if self.is_first_line && self.length <= MAX_REQUEST_LINE_BYTES {
                            self.partial_request_line.extend_from_slice(bytes);
                        }
                        return None;
                    };
                    let (line_end, rest) = bytes.split_at(end);
                    self.buffer_line(line_end);
                    self.lines = self.lines.saturating_add(1);
                    let is_first_line = self.is_first_line;
                    let mut checked = self.check_line();
                    if is_first_line {
                        let partial = std::mem::take(&mut self.partial_request_line);
                        if checked.is_ok() && self.length <= MAX_REQUEST_LINE_BYTES {
                            checked = self.check_request_line(partial, line_end);
                        }
                    }
                    (self.length, self.ends_with_cr, self.has_controls) = (0, false, false);
                    if let Err(reason) = checked {
                        self.record_fault(reason);
                        self.state = HeadState::Unparsed;
                        return Some(all.len() - bytes.len() + end);
                    }
                    // After the line feed.
                    bytes = rest.get(1..).unwrap_or_default();
                }
            }
        }
        None
    }

    fn record_fault(&mut self, reason: impl Into<Cow<'static, str>>) {
        let line = self.lines;
        self.fault.get_or_insert_with(|| HeadFault { line, reason: reason.into() });
    }

    /// Checks the target of a complete request line, whose end has just arrived.
    fn check_request_line(&mut self, mut partial: Vec<u8>, end: &[u8]) -> Result<(), Cow<'static, str>> {
        let line = if partial.is_empty() {
            end
        } else {
            partial.extend_from_slice(end);
            &partial
        };
        match request_target::check_request_line(line) {
            Ok(()) => Ok(()),
            Err(TargetFault::Encodable(encoded)) => {
                self.redirect = Some(encoded).filter(|_| !self.is_pipelined);
                Err("request target is not percent-encoded".into())
            }
            Err(TargetFault::Invalid(reason)) => Err(reason),
        }
    }

    fn buffer_line(&mut self, bytes: &[u8]) {
        let free = self.line.iter_mut().skip(self.length);
        free.zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        self.length = self.length.saturating_add(bytes.len());
        // Branch-free, so that the loop is vectorized.
        let is_control = |byte: u8| (byte < b' ') & (byte != b'\t') & (byte != b'\r');
        self.has_controls |= bytes.iter().fold(false, |found, byte| found | is_control(*byte));
        if let Some(last) = bytes.last() {
            self.ends_with_cr = *last == b'\r';
        }
    }

    /// Processes a complete line; an error if it is ambiguous.
    fn check_line(&mut self) -> Result<(), Cow<'static, str>> {
        if self.has_controls {
            self.record_fault(CONTROL_CHARACTERS);
        }
        if !self.ends_with_cr {
            return Err("line does not end with CRLF".into());
        }
        let line = self.line.get(..self.length).unwrap_or(&self.line);
        if line == b"\r" {
            // Empty lines before a request are ignored.
            if !self.is_first_line {
                self.is_first_request = false;
                self.state = match (self.is_chunked, self.content_length) {
                    (true, _) => HeadState::Unparsed,
                    (false, 0) => HeadState::BeforeHead,
                    (false, length) => HeadState::InBody(length),
                };
            }
            return Ok(());
        }
        if self.is_first_line {
            self.is_first_line = false;
            if self.is_first_request && line == HTTP2_PREFACE_LINE {
                self.state = HeadState::Unparsed;
            }
            return Ok(());
        }
        if matches!(line.first(), Some(b' ' | b'\t')) {
            self.record_fault("obsolete line folding");
            return Ok(());
        }
        if let Some(value) = header_value(line, b"content-length:") {
            // Only its start is known here, so that the end of the body would be another one than for hyper.
            if self.length > LINE_PREFIX_LEN {
                return Err("Content-Length is too long".into());
            }
            self.content_length_count = self.content_length_count.saturating_add(1);
            // hyper rejects invalid numbers.
            self.content_length =
                str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        } else if header_value(line, b"transfer-encoding:").is_some() {
            self.is_chunked = true;
        }
        if self.content_length_count + u8::from(self.is_chunked) < 2 {
            return Ok(());
        }
        Err("conflicting Content-Length or Transfer-Encoding".into())
    }
}

const CONTROL_CHARACTERS: &str = "line has control characters";

fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::server::request_target::RedirectedMethod;

    #[test]
    fn invalidates_ambiguous_heads() {
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        check("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        check("GET / HTTP/1.1\nHost: a\n\n", false);
        check("GET / HTTP/1.1\r\nHost: a\n\r\n", false);
        check("GET / HTTP/1.1\r\nHost: a\r\n\n", false);
        check("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\nHost: a\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nContent-Length: 4\r\n\r\na\nb\nGET / HTTP/1.1\r\n\r\n", true);
        check("PUT / HTTP/1.1\r\nContent-Length: 4\r\n\r\na\nb\nGET / HTTP/1.1\n\r\n", false);
        check("PUT / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nContent-Length: 4\r\ntransfer-encoding: chunked\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 4\r\n\r\n", false);
        check("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n", true);
        // A length that is longer than the part of the line that is examined.
        let padded =
            |zeros: usize| format!("PUT / HTTP/1.1\r\nContent-Length: {}4\r\n\r\na\nb\n", "0".repeat(zeros));
        check(&padded(46), true);
        check(&padded(47), false);
        check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n", true);
        check("GET / HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\n", false);
        check(&format!("GET /{} HTTP/1.1\r\nA: b\r\n\r\n", "x".repeat(9_000)), true);
        check(&format!("GET /{} HTTP/1.1\nA: b\r\n\r\n", "x".repeat(9_000)), false);
    }

    /// Checks the input as a whole, and byte by byte.
    #[track_caller]
    fn check(sent: &str, expected: bool) {
        for size in [sent.len(), 1, 7] {
            let mut validator = HeadValidator::new();
            let is_accepted = sent.as_bytes().chunks(size).all(|bytes| validator.inspect(bytes).is_none());
            assert_eq!(is_accepted, expected, "{sent:?} by {size}");
        }
    }

    /// The response to an earlier head must not become a redirect.
    #[test]
    fn pipelined_heads_are_not_redirected() {
        let (first, second) = ("GET /\0 HTTP/1.1\r\n\r\n", "GET /a#b HTTP/1.1\r\n\r\n");
        let redirects = |reads: &[&str]| {
            let mut validator = HeadValidator::new();
            let is_accepted = reads.iter().all(|read| validator.inspect(read.as_bytes()).is_none());
            (is_accepted, validator.redirect().is_some())
        };
        assert_eq!(redirects(&[&format!("{first}{second}")]), (false, false));
        assert_eq!(redirects(&[first, second]), (false, true));
        assert_eq!(redirects(&[first, &second[..5], &second[5..]]), (false, true));
        let body = "PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\n<";
        assert_eq!(redirects(&[body, "GET /` HTTP/1.1\r\n\r\n"]), (false, true));
    }

    #[test]
    fn faults() {
        let check = |sent: &str, expected: Option<&str>| {
            let mut validator = HeadValidator::new();
            validator.inspect(sent.as_bytes());
            assert_eq!(validator.fault().map(|fault| fault.to_string()).as_deref(), expected, "{sent:?}");
        };
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None);
        check("GET / HTTP/1.1\r\nHost: a\n", Some("line 2: line does not end with CRLF"));
        check("GET /\0 HTTP/1.1\r\nHost: a\r\n", Some("line 1: line has control characters"));
        check("GET /\0", Some("line 1: line has control characters"));
        check("GET / HTTP/1.1\r\nA: \u{1b}\r\n\r\n", Some("line 2: line has control characters"));
        check("GET /\0 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", None);
        check("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Some("line 3: obsolete line folding"));
        let twice = "GET / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n";
        check(twice, Some("line 3: conflicting Content-Length or Transfer-Encoding"));
    }

    /// The bytes before the end of the rejected line are passed on, in whichever pieces they arrive.
    #[test]
    fn ends_rejected_heads() {
        for (sent, kept) in [
            ("PUT / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 53),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n", 23),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n", 25),
            ("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n", 18),
        ] {
            for size in [sent.len(), 1, 7] {
                let mut validator = HeadValidator::new();
                let mut passed = 0;
                for bytes in sent.as_bytes().chunks(size) {
                    match validator.inspect(bytes) {
                        None => passed += bytes.len(),
                        Some(kept) => {
                            passed += kept;
                            break;
                        }
                    }
                }
                assert_eq!(passed, kept, "{sent:?} by {size}");
            }
        }
    }

    #[test]
    fn redirects_to_encoded_targets() {
        let check = |sent: &str, expected: Option<(&str, RedirectedMethod)>| {
            for size in [sent.len(), 1, 7] {
                let mut validator = HeadValidator::new();
                let _ = sent.as_bytes().chunks(size).try_for_each(|bytes| match validator.inspect(bytes) {
                    Some(_) => Err(()),
                    None => Ok(()),
                });
                let found = validator.redirect().map(|redirect| (&*redirect.target, redirect.method));
                assert_eq!(found, expected, "{sent:?} by {size}");
            }
        };
        check("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n", Some(("/a%3Cb", RedirectedMethod::Get)));
        check("\r\nHEAD /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Some(("/a%23b", RedirectedMethod::Head)));
        check("GET /a HTTP/1.1\r\nX: <\r\n\r\n", None);
        check("POST /a` HTTP/1.1\r\n\r\n", Some(("/a%60", RedirectedMethod::Other)));
    }

    #[test]
    fn reports_head_state() {
        let mut validator = HeadValidator::new();
        assert!(validator.has_received_nothing() && !validator.is_in_head());
        validator.inspect(b"GET / HTTP/1.1\r\nHost");
        assert!(!validator.has_received_nothing() && validator.is_in_head());
        validator.inspect(b": a\r\nContent-Length: 2\r\n\r\n");
        assert!(!validator.has_received_nothing() && !validator.is_in_head());
        validator.inspect(b"ab");
        assert!(!validator.is_in_head());
        validator.inspect(b"G");
        assert!(validator.is_in_head());
    }
}
