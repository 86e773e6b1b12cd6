//! Lines of a streaming request body, in constant memory.

use std::io::Write as _;
use std::mem;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, EXPECT};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming};
use memchr::{memchr, memchr_iter};
use tokio::time::{Instant, timeout};

use crate::connection::TransferAllowance;
use crate::http::request::body::{BodyError, BodyReader, RequestBody};

/// Maximum decompression ratio, beyond the first bytes.
const MAX_DECOMPRESSION_RATIO: usize = 100;
const RATIO_FREE_BYTES: usize = 1 << 20;

/// Compressed bytes decoded at once; they may expand a thousandfold.
const GZIP_SLICE_BYTES: usize = 512;

const EXPECT_CONTINUE_POLL: Duration = Duration::from_millis(1);

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// Maximum bytes per line and per body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLimits {
    /// Maximum bytes of a line.
    pub(crate) line: usize,
    /// Maximum bytes of the body, decompressed.
    pub(crate) body: usize,
}

impl Default for LineLimits {
    fn default() -> Self {
        Self { line: 64 << 10, body: usize::MAX }
    }
}

/// One line of a request body, without its terminator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct BodyLine {
    /// Line number from 1; empty lines count.
    pub(crate) number: u64,
    pub(crate) text: Result<Bytes, LineTooLong>,
}

/// Line that exceeds the limit and was discarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line of {length} bytes exceeds the limit of {limit}")]
pub(crate) struct LineTooLong {
    pub(crate) limit: usize,
    pub(crate) length: u64,
    /// Number of `"` in the line, which decides whether a CSV row continues after it.
    pub(crate) quotes: u64,
}

impl LineTooLong {
    fn new(limit: usize, text: &[u8]) -> Self {
        let mut line = Self { limit, length: 0, quotes: 0 };
        line.add(text);
        line
    }

    fn add(&mut self, text: &[u8]) {
        self.length += text.len() as u64;
        self.quotes += memchr_iter(b'"', text).count() as u64;
    }
}

/// Lines of a request body that is still being received.
#[derive(Debug)]
pub(crate) struct BodyLines {
    body: Incoming,
    limits: LineLimits,
    /// Time for more input.
    allowance: TransferAllowance,
    /// Lines that have extended the allowance.
    counted_lines: u64,
    /// Bytes received.
    received: u64,
    decoder: Option<GzipDecoder>,
    decoded: usize,
    is_finished: bool,
    splitter: LineSplitter,
}

impl BodyReader {
    /// Lines of a body, which may be gzip-compressed.
    pub(crate) async fn lines(
        &self,
        headers: &HeaderMap,
        body: RequestBody,
        limits: LineLimits,
    ) -> Result<BodyLines, BodyError> {
        let body = body.incoming;
        let decoder = is_gzip(headers)?.then(GzipDecoder::default);
        if decoder.is_none() && body.size_hint().lower() > limits.body as u64 {
            return Err(BodyError::TooLarge { limit: limits.body });
        }
        let mut lines = BodyLines {
            body,
            limits,
            allowance: TransferAllowance::new(self.timeout),
            counted_lines: 0,
            received: 0,
            decoder,
            decoded: 0,
            is_finished: false,
            splitter: LineSplitter::new(limits.line),
        };
        // hyper sends `100 Continue` when the body is first polled, but not after the response has begun: poll it now.
        if headers.contains_key(EXPECT)
            && let Ok(frame) = timeout(EXPECT_CONTINUE_POLL, lines.body.frame()).await
        {
            lines.receive(frame)?;
        }
        Ok(lines)
    }
}

impl BodyLines {
    /// Next line, or `None` at the end. After an error, nothing more can be read.
    ///
    /// As long as the server is waiting, the client has to send at least 4 KiB or a line per second, over a sliding window of
    /// the timeout. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<BodyLine>, BodyError> {
        loop {
            if let Some(line) = self.next_buffered()? {
                return Ok(Some(line));
            }
            if self.is_finished {
                return Ok(self.splitter.finish());
            }
            let lines = self.splitter.number - self.counted_lines;
            self.allowance.earn(Duration::from_secs(lines));
            self.counted_lines = self.splitter.number;
            let started = Instant::now();
            let frame = timeout(self.allowance.remaining(), self.body.frame()).await;
            self.allowance.spend(started.elapsed());
            let frame = frame.map_err(|_| BodyError::Timeout)?;
            self.receive(frame)?;
        }
    }

    /// Next line that is already buffered.
    pub(crate) fn next_buffered(&mut self) -> Result<Option<BodyLine>, BodyError> {
        loop {
            if let Some(line) = self.splitter.next() {
                return Ok(Some(line));
            }
            let Some(decoder) = self.decoder.as_mut().filter(|decoder| !decoder.compressed.is_empty()) else {
                return Ok(None);
            };
            let chunk = decoder.decode_slice()?;
            self.push_decoded(chunk)?;
            if self.decoded > RATIO_FREE_BYTES
                && self.decoded as u64 / MAX_DECOMPRESSION_RATIO as u64 > self.received
            {
                return Err(BodyError::DecompressionRatio { ratio: MAX_DECOMPRESSION_RATIO });
            }
        }
    }

    fn receive(&mut self, frame: Option<hyper::Result<Frame<Bytes>>>) -> Result<(), BodyError> {
        let Some(frame) = frame else {
            self.is_finished = true;
            let rest = self.decoder.as_mut().map_or(Ok(Bytes::new()), GzipDecoder::finish)?;
            return self.push_decoded(rest);
        };
        let Ok(data) = frame.map_err(|_| BodyError::Malformed)?.into_data() else { return Ok(()) };
        self.received += data.len() as u64;
        self.allowance.earn_bytes(data.len());
        match &mut self.decoder {
            Some(decoder) => decoder.compressed = data,
            None => self.push_decoded(data)?,
        }
        Ok(())
    }

    fn push_decoded(&mut self, chunk: Bytes) -> Result<(), BodyError> {
        self.decoded = self.decoded.saturating_add(chunk.len());
        if self.decoded > self.limits.body {
            return Err(BodyError::TooLarge { limit: self.limits.body });
        }
        self.splitter.chunk = chunk;
        Ok(())
    }
}

/// Whether a body is gzip-compressed; an error for other encodings.
fn is_gzip(headers: &HeaderMap) -> Result<bool, BodyError> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    let coding = codings.next().map(|coding| coding.as_bytes().trim_ascii().to_ascii_lowercase());
    match (coding.as_deref(), codings.next()) {
        (None | Some(b"" | b"identity"), None) => Ok(false),
        (Some(b"gzip" | b"x-gzip"), None) => Ok(true),
        _ => Err(BodyError::UnsupportedEncoding),
    }
}

/// Streaming gzip decoder.
#[derive(Debug)]
struct GzipDecoder {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Received, not yet decoded.
    compressed: Bytes,
}

impl Default for GzipDecoder {
    fn default() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), compressed: Bytes::new() }
    }
}

impl GzipDecoder {
    fn decode_slice(&mut self) -> Result<Bytes, BodyError> {
        let slice = self.compressed.split_to(self.compressed.len().min(GZIP_SLICE_BYTES));
        // A client that sends a line and waits has flushed its encoder: flush the decoder, too.
        self.decoder
            .write_all(&slice)
            .and_then(|()| self.decoder.flush())
            .map_err(|_| BodyError::Malformed)
            .map(|()| mem::take(self.decoder.get_mut()).into())
    }

    fn finish(&mut self) -> Result<Bytes, BodyError> {
        self.decoder.try_finish().map_err(|_| BodyError::Malformed)?;
        Ok(mem::take(self.decoder.get_mut()).into())
    }
}

/// Splits chunks of bytes into lines.
#[derive(Debug)]
struct LineSplitter {
    limit: usize,
    /// Received, not yet split.
    chunk: Bytes,
    /// Beginning of an incomplete line.
    partial: BytesMut,
    /// Set while an overlong line is being discarded.
    discarded: Option<LineTooLong>,
    /// Number of complete lines.
    number: u64,
}

impl LineSplitter {
    fn new(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), partial: BytesMut::new(), discarded: None, number: 0 }
    }

    fn next(&mut self) -> Option<BodyLine> {
        let Some(end) = memchr(b'\n', &self.chunk) else {
            let rest = mem::take(&mut self.chunk);
            self.buffer(&rest);
            return None;
        };
        let mut text = self.chunk.split_to(end + 1);
        text.truncate(end);
        if !self.partial.is_empty() || self.discarded.is_some() {
            self.buffer(&text);
            text = self.partial.split().freeze();
        }
        Some(self.complete_line(text))
    }

    /// Line after the last line end.
    fn finish(&mut self) -> Option<BodyLine> {
        let is_incomplete = !self.partial.is_empty() || self.discarded.is_some();
        let text = self.partial.split().freeze();
        is_incomplete.then(|| self.complete_line(text))
    }

    fn buffer(&mut self, text: &[u8]) {
        // The byte order mark and CR do not count.
        let is_too_long = self.partial.len() + text.len() > self.limit.saturating_add(UTF8_BOM.len() + 1);
        if is_too_long && self.discarded.is_none() {
            self.discarded = Some(LineTooLong::new(self.limit, &self.partial.split()));
        }
        match &mut self.discarded {
            Some(discarded) => discarded.add(text),
            None => self.partial.extend_from_slice(text),
        }
    }

    fn complete_line(&mut self, mut text: Bytes) -> BodyLine {
        self.number += 1;
        if self.number == 1 && text.starts_with(UTF8_BOM) {
            text = text.slice(UTF8_BOM.len()..);
        }
        if text.ends_with(b"\r") {
            text.truncate(text.len() - 1);
        }
        let discarded = self.discarded.take();
        let discarded =
            discarded.or_else(|| (text.len() > self.limit).then(|| LineTooLong::new(self.limit, &text)));
        BodyLine { number: self.number, text: discarded.map_or(Ok(text), Err) }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::header::HeaderValue;
    use http::{Request, StatusCode};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::mpsc;

    use super::*;
    use crate::http::response::reply::{TEXT, reply};
    use crate::http::response::stream::{StreamAborted, stream, stream_spooled};
    use crate::http::server::connection;
    use crate::http::server::listener::HttpLimits;
    use crate::http::server::timeouts::TimeoutStream;

    const LIMIT: usize = 8;

    #[test]
    fn split() {
        check(&["a\nb\n"], &["a", "b"]);
        check(&["a\nb"], &["a", "b"]);
        check(&["a\r\n\r\nb\r\n"], &["a", "", "b"]);
        check(&["\n\n"], &["", ""]);
        check(&[""], &[]);
        check(&["\u{feff}a\n\u{feff}b\n"], &["a", "\u{feff}b"]);
        check(&["12345678\n123456789\n1\n"], &["12345678", "!", "1"]);
        check(&["12345678\r\n123456789\r\n1\n"], &["12345678", "!", "1"]);
        check(&["\u{feff}12345678\r\n1\n"], &["12345678", "1"]);
        check(&["a\nlonger than that and more of it"], &["a", "!"]);
        check(&["longer than that\nb"], &["!", "b"]);
    }

    /// Checks the input as a whole and in chunks of all sizes; `!` stands for an overlong line.
    #[track_caller]
    fn check(written: &[&str], expected: &[&str]) {
        let written = written.concat();
        for size in 1..=written.len().max(1) {
            let mut splitter = LineSplitter::new(LIMIT);
            let mut found = Vec::new();
            for chunk in written.as_bytes().chunks(size) {
                splitter.chunk = Bytes::copy_from_slice(chunk);
                found.extend(std::iter::from_fn(|| splitter.next()));
                assert!(splitter.partial.len() <= LIMIT + UTF8_BOM.len() + 1);
            }
            found.extend(splitter.finish());
            assert!(found.iter().map(|line| line.number).eq(1..=found.len() as u64));
            let texts = found.iter().map(|line| match &line.text {
                Ok(text) => String::from_utf8_lossy(text),
                Err(_) => "!".into(),
            });
            assert_eq!(texts.collect::<Vec<_>>(), expected, "{written:?} by {size}");
        }
    }

    /// Server that responds to each line with its number and length, and to an error with its reason.
    fn serve(limits: LineLimits, time: Duration) -> DuplexStream {
        let (client, server) = duplex(1 << 20);
        serve_at(server, limits, time);
        client
    }

    fn serve_at(server: DuplexStream, limits: LineLimits, time: Duration) {
        let connection_limits = HttpLimits { write_timeout: time, ..HttpLimits::default() };
        let server = TimeoutStream::new(server, connection_limits, HeaderValue::from_static("id"));
        tokio::spawn(async move {
            let count = move |request: Request<Incoming>| async move {
                let (parts, body) = request.into_parts();
                let body = RequestBody::new(body, None);
                let response = match BodyReader::new(time).lines(&parts.headers, body, limits).await {
                    Err(error) => reply(error.status(), TEXT, error.to_string()),
                    Ok(mut lines) => stream_spooled(StatusCode::OK, TEXT, async move |sink| {
                        loop {
                            match lines.next().await {
                                Ok(None) => return Ok(()),
                                Ok(Some(BodyLine { number, text: Ok(text) })) => {
                                    sink.send(format!("{number} {}\n", text.len())).await?;
                                }
                                Ok(Some(BodyLine { number, text: Err(error) })) => {
                                    sink.send(format!("{number} {error}\n")).await?;
                                }
                                Err(error) => {
                                    sink.send(format!("{} {error}\n", error.status().as_u16())).await?;
                                    return Err(StreamAborted);
                                }
                            }
                        }
                    }),
                };
                Ok::<_, Infallible>(connection::response_for_test(response))
            };
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(server), service_fn(count)).await;
        });
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    /// Whole response to a body with this encoding.
    async fn post(coding: &str, body: &[u8], limits: LineLimits) -> String {
        let mut client = serve(limits, Duration::from_secs(5));
        let length = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Encoding: {coding}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        // The response may be complete before the body is.
        let _ = client.write_all(body).await;
        let mut response = String::new();
        let _ = client.read_to_string(&mut response).await;
        response
    }

    #[tokio::test]
    async fn compressed() {
        let limits = LineLimits::default();
        let body = "a line\n".repeat(1_000);
        let whole = gzip(body.as_bytes());
        for (coding, body) in
            [("identity", body.as_bytes()), ("gzip", &whole), ("X-GZIP", &[&*whole, &gzip(b"")].concat())]
        {
            let response = post(coding, body, limits).await;
            assert!(response.contains("1000 6\n") && response.ends_with("0\r\n\r\n"), "{coding}: {response}");
        }
        assert!(post("br", b"", limits).await.starts_with("HTTP/1.1 415"));
        assert!(post("gzip, gzip", &whole, limits).await.starts_with("HTTP/1.1 415"));
        for broken in [&whole[..whole.len() - 1], b"no gzip at all", b""] {
            let response = post("gzip", broken, limits).await;
            assert!(
                response.contains("400 the body is malformed") && !response.ends_with("0\r\n\r\n"),
                "{response}"
            );
        }
    }

    #[tokio::test]
    async fn attack_d3_decompression_bomb() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(
            post("gzip", &bomb, LineLimits::default()).await.contains("413 the decompressed body exceeds")
        );
        let limits = LineLimits { body: 1_000, ..LineLimits::default() };
        assert!(post("identity", &[b' '; 1_001], limits).await.starts_with("HTTP/1.1 413"));
        assert!(
            post("gzip", &gzip(&[b' '; 1_001]), limits).await.contains("413 the body exceeds 1000 bytes")
        );
        assert!(post("gzip", &gzip(&[b' '; 1_000]), limits).await.contains("1 1000\n"));
        // Overlong lines are not buffered.
        let long = vec![b'x'; 3 << 20];
        assert!(post("identity", &long, LineLimits::default()).await.contains("exceeds the limit of 65536"));
    }

    #[tokio::test(start_paused = true)]
    async fn attack_h10_missing_body() {
        for (begin, expected) in [("", ""), ("a\nb\n", "1 1\n")] {
            let mut client = serve(LineLimits::default(), Duration::from_millis(200));
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{begin}");
            client.write_all(head.as_bytes()).await.unwrap();
            let mut response = String::new();
            let _ = client.read_to_string(&mut response).await;
            assert!(
                response.contains(expected) && response.contains("408 timeout while reading the body"),
                "{response}"
            );
        }
    }

    /// A trickling body is cut off.
    #[tokio::test(start_paused = true)]
    async fn attack_h10_trickling_body() {
        let mut client = serve(LineLimits::default(), Duration::from_millis(500));
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").await.unwrap();
        let started = Instant::now();
        while client.write_all(b"x").await.is_ok() && started.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }

    /// Each line is sent after the response to the one before, also with compression.
    #[tokio::test]
    async fn responds_per_line() {
        for coding in ["identity", "gzip"] {
            let mut client = serve(LineLimits::default(), Duration::from_secs(5));
            let head = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Encoding: {coding}\r\n\r\n"
            );
            client.write_all(head.as_bytes()).await.unwrap();
            let mut response = String::new();
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            for number in 1..=100 {
                encoder.write_all(b"abc\n").unwrap();
                encoder.flush().unwrap();
                let compressed = mem::take(encoder.get_mut());
                send(&mut client, if coding == "gzip" { &compressed } else { b"abc\n" }).await;
                let expected = format!("{number} 3\n");
                let mut chunk = [0; 256];
                while !response.contains(&expected) {
                    let read = client.read(&mut chunk).await.unwrap();
                    assert!(read > 0, "{response}");
                    response += std::str::from_utf8(&chunk[..read]).unwrap();
                }
            }
            if coding == "gzip" {
                send(&mut client, &encoder.finish().unwrap()).await;
            }
            client.write_all(b"0\r\n\r\n").await.unwrap();
            while !response.ends_with("\r\n0\r\n\r\n") {
                response.push(char::from(client.read_u8().await.unwrap()));
            }
        }
    }

    async fn send(client: &mut DuplexStream, chunk: &[u8]) {
        let begin = format!("{:x}\r\n", chunk.len());
        client.write_all(&[begin.as_bytes(), chunk, b"\r\n"].concat()).await.unwrap();
    }

    /// A client that reads nothing before it has sent everything is not cut off by the write timeout, and receives the whole
    /// response.
    #[tokio::test(start_paused = true)]
    async fn responds_to_late_reader() {
        const LINES: usize = 100_000;
        let (mut client, server) = duplex(4 << 10);
        serve_at(server, LineLimits::default(), Duration::from_millis(500));
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            LINES * 4
        );
        client.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..20 {
            client.write_all("abc\n".repeat(LINES / 20).as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.contains(&format!("{LINES} 3\n")) && response.ends_with("\r\n0\r\n\r\n"));
    }

    /// `Expect: 100-continue` is answered.
    #[tokio::test]
    async fn sends_100_continue() {
        let mut client = serve(LineLimits::default(), Duration::from_secs(5));
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        client.read_exact(&mut response).await.unwrap();
        assert_eq!(&response, b"HTTP/1.1 100");
    }

    #[tokio::test]
    async fn responds_per_line_over_http2() {
        let client = serve(LineLimits::default(), Duration::from_secs(5));
        let io = TokioIo::new(client);
        let (mut http2, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let (sender, mut receiver) = mpsc::channel::<&str>(1);
        let sent = stream(StatusCode::OK, TEXT, async move |sink| {
            while let Some(line) = receiver.recv().await {
                sink.send(line).await?;
            }
            Ok(())
        });
        let request =
            Request::post("http://a/").body(connection::response_for_test(sent).into_body()).unwrap();
        let mut body = http2.send_request(request).await.unwrap().into_body();
        for number in 1..=100 {
            sender.send("abc\n").await.unwrap();
            let chunk = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(chunk, format!("{number} 3\n"));
        }
        drop(sender);
        assert!(body.collect().await.unwrap().to_bytes().is_empty());
    }
}
