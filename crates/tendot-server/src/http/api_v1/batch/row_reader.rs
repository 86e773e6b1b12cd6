//! Lines of a batch: JSON lines, or CSV rows that span lines.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tendot_registry::batch::{BatchInput, LineGroup, MAX_GROUP_BYTES, RawLine};
use tokio::time::timeout;

use crate::http::api_v1::batch::csv::{CsvColumns, count_quotes};
use crate::http::api_v1::{ApiError, malformed};
use crate::http::request::body::BodyError;
use crate::http::request::body_lines::{BodyLines, LineLimits, LineTooLong};
use crate::http::response::errors::problem_for_body;

/// How long to wait for further lines of a group.
const GROUP_DELAY: Duration = Duration::from_millis(3);

/// Reads lines, or CSV rows that span lines.
pub(super) struct RowReader {
    lines: BodyLines,
    is_csv: bool,
    /// Incomplete row; stored here so that `next` is cancel-safe.
    partial_row: Option<PartialRow>,
}

/// CSV row whose quoted field continues on the next line.
struct PartialRow {
    number: u64,
    text: BytesMut,
    length: u64,
    quotes: u64,
}

impl PartialRow {
    fn push_line(&mut self, line: Result<Bytes, LineTooLong>) {
        let limit = LineLimits::default().line as u64;
        let (length, quotes) = match &line {
            Ok(text) => (text.len() as u64, count_quotes(text)),
            Err(error) => (error.length, error.quotes),
        };
        self.length += length + 1;
        self.quotes += quotes;
        match line {
            Ok(text) if self.length <= limit => {
                self.text.extend_from_slice(&text);
                self.text.extend_from_slice(b"\n");
            }
            // Discarded, but followed to its end.
            _ => self.text.clear(),
        }
    }

    fn finish(mut self) -> RawLine {
        let (number, length, limit) = (self.number, self.length, LineLimits::default().line);
        if self.quotes % 2 == 1 {
            return RawLine { number, text: Err(format!("unclosed quote ({length} bytes follow)")) };
        }
        if length > limit as u64 {
            let text = Err(format!("row of {length} bytes exceeds the limit of {limit}"));
            return RawLine { number, text };
        }
        self.text.truncate(self.text.len().saturating_sub(1));
        RawLine { number, text: Ok(self.text.freeze()) }
    }
}

impl RowReader {
    pub(super) const fn new(lines: BodyLines, is_csv: bool) -> Self {
        Self { lines, is_csv, partial_row: None }
    }

    /// Reads the header row of a CSV body; returns its columns and text.
    pub(super) async fn read_header_row(&mut self) -> Result<(CsvColumns, String), Box<ApiError>> {
        let line = self.lines.next().await.map_err(problem_for_body)?;
        let text = line.and_then(|line| line.text.ok()).unwrap_or_default();
        let text = std::str::from_utf8(&text).map_err(|error| {
            malformed(&format!("invalid UTF-8 at byte {} of the header row", error.valid_up_to()))
        })?;
        let columns = CsvColumns::parse(text).map_err(|reason| malformed(&reason))?;
        Ok((columns, text.to_owned()))
    }
}

impl BatchInput for RowReader {
    type Error = BodyError;

    /// Next non-empty line or CSV row. Cancel-safe.
    async fn next(&mut self) -> Result<Option<RawLine>, BodyError> {
        loop {
            let Some(line) = self.lines.next().await? else {
                return Ok(self.partial_row.take().map(PartialRow::finish));
            };
            if let Some(mut row) = self.partial_row.take() {
                row.push_line(line.text);
                if row.quotes % 2 == 0 {
                    return Ok(Some(row.finish()));
                }
                self.partial_row = Some(row);
                continue;
            }
            let quotes = match &line.text {
                Ok(text) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(text) => count_quotes(text),
                Err(error) => error.quotes,
            };
            if !self.is_csv || quotes % 2 == 0 {
                let text = line.text.map_err(|error| error.to_string());
                return Ok(Some(RawLine { number: line.number, text }));
            }
            let mut row = PartialRow { number: line.number, text: BytesMut::new(), length: 0, quotes: 0 };
            row.push_line(line.text);
            self.partial_row = Some(row);
        }
    }

    async fn next_group(&mut self, max_lines: usize) -> LineGroup<BodyError> {
        let mut group = LineGroup { lines: Vec::new(), error: None };
        let mut bytes = 0;
        while group.lines.len() < max_lines && bytes < MAX_GROUP_BYTES {
            let next = if group.lines.is_empty() {
                self.next().await
            } else {
                match timeout(GROUP_DELAY, self.next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                }
            };
            match next {
                Ok(Some(line)) => {
                    bytes += line.byte_len();
                    group.lines.push(line);
                }
                Ok(None) => break,
                Err(error) => {
                    group.error = Some(error);
                    break;
                }
            }
        }
        group
    }
}
