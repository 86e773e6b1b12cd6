//! HTTP/1.1 client that sends exactly what a test writes and returns everything that came back.
//!
//! Client libraries, such as `ureq`, reject or correct malformed requests, and do not return the head as it was received.

use std::borrow::Cow;
use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value as Json;

use crate::WAIT_TIMEOUT;

/// An HTTP request under construction.
///
/// ```
/// use tendot_testing::http::HttpRequest;
///
/// let request = HttpRequest::get("/livez").header("Accept: text/plain");
/// assert!(request.to_bytes().starts_with(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n"));
/// ```
#[derive(Clone, Debug)]
pub struct HttpRequest {
    method: String,
    target: String,
    headers: String,
    body: Vec<u8>,
}

impl HttpRequest {
    /// A request with any method and target.
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: String::new(), body: Vec::new() }
    }

    /// A GET request.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Adds header lines, `Name: value`, without line ends.
    #[must_use]
    pub fn headers<'h>(mut self, lines: impl IntoIterator<Item = &'h str>) -> Self {
        for line in lines {
            self.headers += line;
            self.headers += "\r\n";
        }
        self
    }

    /// Adds one header line, `Name: value`.
    #[must_use]
    pub fn header(self, line: &str) -> Self {
        self.headers([line])
    }

    /// Adds a bearer token unless it is empty.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        if token.is_empty() { self } else { self.header(&format!("Authorization: Bearer {token}")) }
    }

    /// Sets the body; its length is sent as `Content-Length`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its content type.
    #[must_use]
    pub fn json(self, body: &Json) -> Self {
        self.header("Content-Type: application/json").body(body.to_string())
    }

    /// The request as it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { method, target, headers, body } = self;
        let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}").into_bytes();
        if !body.is_empty() || method != "GET" && method != "HEAD" {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends the request on a connection of its own and reads the response to its end.
    #[track_caller]
    pub fn send(&self, address: SocketAddr) -> HttpResponse {
        self.try_send(address).unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.target))
    }

    /// Like [`HttpRequest::send`], for servers that may be gone.
    pub fn try_send(&self, address: SocketAddr) -> Result<HttpResponse> {
        HttpConnection::open(address)?.exchange(&self.clone().header("Connection: close"))
    }
}

/// A connection that carries one request after another.
#[derive(Debug)]
pub struct HttpConnection {
    reader: BufReader<TcpStream>,
}

impl HttpConnection {
    /// Connects; reads time out after [`WAIT_TIMEOUT`].
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends a request and reads its response.
    pub fn exchange(&mut self, request: &HttpRequest) -> Result<HttpResponse> {
        self.write(&request.to_bytes())?;
        self.read_response(request.method == "HEAD")
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Reads one response: up to its length, its last chunk, or the end of the connection.
    pub fn read_response(&mut self, is_head: bool) -> Result<HttpResponse> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.reader.read_until(b'\n', &mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let mut response = HttpResponse::from_head(&head)?;
        if is_head || matches!(response.status, 100..=199 | 204 | 304) {
            return Ok(response);
        }
        if response.header("transfer-encoding") == Some("chunked") {
            self.read_chunks(&mut response.body)?;
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().map_err(Error::other)?;
            self.reader.by_ref().take(length).read_to_end(&mut response.body)?;
            if (response.body.len() as u64) < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        } else {
            self.reader.read_to_end(&mut response.body)?;
        }
        Ok(response)
    }

    fn read_chunks(&mut self, body: &mut Vec<u8>) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let size = u64::from_str_radix(line.trim_end(), 16).map_err(Error::other)?;
            let before = body.len() as u64;
            self.reader.by_ref().take(size).read_to_end(body)?;
            line.clear();
            // The line end of the chunk; after the last chunk, the end of the empty trailer.
            if body.len() as u64 - before < size || self.reader.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if size == 0 {
                return Ok(());
            }
        }
    }
}

/// An HTTP response.
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The status code; 0 if no response came.
    pub status: u16,
    /// Status line and headers, with the empty line that ends them.
    pub head: String,
    /// The body, chunks joined; content codings are left as they are.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Parses all bytes of a connection that the server closed; a response that was cut off is returned as far as it came,
    /// with status 0 if not even its head is complete.
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
            return Self::default();
        };
        let Ok(mut response) = Self::from_head(&bytes[..end]) else { return Self::default() };
        let body = &bytes[end..];
        let is_chunked = response.header("transfer-encoding") == Some("chunked");
        response.body = if is_chunked { join_chunks(body) } else { body.to_vec() };
        response
    }

    fn from_head(head: &[u8]) -> Result<Self> {
        let head = String::from_utf8(head.to_vec()).map_err(Error::other)?;
        let status = head.split(' ').nth(1).and_then(|status| status.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| Error::other(format!("invalid status line: {head}")))?;
        Ok(Self { status, head, body: Vec::new() })
    }

    /// The value of the first header with this name.
    pub fn header<'r>(&'r self, name: &'r str) -> Option<&'r str> {
        self.headers(name).next()
    }

    /// The values of all headers with this name.
    pub fn headers<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r str> {
        self.head.lines().skip(1).filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The body as text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or(Json::Null)
    }

    /// The sum of the samples with this metric name, or of the one with these labels, in a response from `/metrics`; `None`
    /// if there is none.
    #[track_caller]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.text();
        let samples = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
        let values = samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        values.reduce(|sum, value| sum + value)
    }

    /// The lines of the body as JSON.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Json> {
        let text = self.text();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}

/// Sends bytes on a new connection and returns everything that comes until it is closed. The server may close it before it
/// has read everything.
#[track_caller]
pub fn send_raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> HttpResponse {
    let mut connection = HttpConnection::open(address).unwrap();
    let _ = connection.write(bytes.as_ref());
    HttpResponse::parse(&read_to_close(connection.stream()))
}

/// Everything that comes until a connection is closed or reset.
pub fn read_to_close(mut stream: &TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 64 << 10]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
    }
    bytes
}

/// Joins the chunks of a body, as far as they are complete.
pub fn join_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size =
            std::str::from_utf8(&body[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) = size.and_then(|size| body.get(end + 2..end + 2 + size)) else { break };
        joined.extend_from_slice(chunk);
        body = body.get(end + 2 + chunk.len() + 2..).unwrap_or_default();
    }
    joined
}
