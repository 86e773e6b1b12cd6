//! Journal chunk: results of lines that were committed together, and the refused lines among them.

use bytes::Bytes;

use super::line::{BatchLineOutcome, RawLine};

/// Journal chunk: results of lines that were committed together.
///
/// Later lines may be journaled while earlier ones are not: groups are committed concurrently.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct JournalChunk {
    /// Numbers of the first and last line, and the fingerprint of all.
    pub(super) first_line: u64,
    pub(super) last_line: u64,
    pub(super) fingerprint: String,
    /// Refused lines that another run may accept.
    pub(super) refused: Vec<RefusedLine>,
    /// Results, one line each.
    pub(super) results: Bytes,
}

/// Refused line, as received.
///
/// A line with secret values is journaled without its text: it is tried again as it is sent again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RefusedLine {
    /// Position of its result in the chunk.
    pub(super) position: usize,
    /// Number in the batch.
    pub(super) number: u64,
    pub(super) text: Option<Bytes>,
}

impl RefusedLine {
    /// Line as it was received, or sent again; `None` if its text is not known.
    pub(super) fn to_raw(&self, resent: &[RawLine]) -> Option<RawLine> {
        match &self.text {
            Some(text) => Some(RawLine { number: self.number, text: Ok(text.clone()) }),
            None => resent.iter().find(|line| line.number == self.number).cloned(),
        }
    }
}

/// Length of a text that is not journaled.
const NO_TEXT: &str = "-";

impl JournalChunk {
    /// Header line, refused lines, results.
    pub(super) fn to_bytes(&self) -> Box<[u8]> {
        let mut refused = Vec::new();
        for RefusedLine { position, number, text } in &self.refused {
            let length = text.as_ref().map_or_else(|| NO_TEXT.to_owned(), |text| text.len().to_string());
            refused.extend(format!("{position} {number} {length}\n").into_bytes());
            refused.extend_from_slice(text.as_deref().unwrap_or_default());
        }
        let Self { first_line, last_line, fingerprint, .. } = self;
        let header = format!("{first_line} {last_line} {fingerprint} {}\n", refused.len());
        [header.as_bytes(), &refused, &self.results].concat().into()
    }

    pub(super) fn parse(mut stored: Bytes) -> Option<Self> {
        let header = take_header(&mut stored)?;
        let mut fields = header.split(' ');
        let (first_line, last_line) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let fingerprint = fields.next()?.to_owned();
        let refused_len: usize = fields.next()?.parse().ok()?;
        if refused_len > stored.len() {
            return None;
        }
        let mut section = stored.split_to(refused_len);
        let mut refused = Vec::new();
        while !section.is_empty() {
            let header = take_header(&mut section)?;
            let mut fields = header.split(' ');
            let (position, number) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let length = match fields.next()? {
                NO_TEXT => None,
                length => Some(length.parse().ok().filter(|length| *length <= section.len())?),
            };
            let text = length.map(|length: usize| section.split_to(length));
            refused.push(RefusedLine { position, number, text });
        }
        Some(Self { first_line, last_line, fingerprint, refused, results: stored })
    }

    /// Chunk with new results of some of its refused lines.
    pub(super) fn with_outcomes(
        &self,
        outcomes: &[BatchLineOutcome],
        render: impl Fn(&[BatchLineOutcome]) -> Bytes,
    ) -> Self {
        let mut results: Vec<Bytes> = self
            .results
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| self.results.slice_ref(line))
            .collect();
        let mut refused = self.refused.clone();
        for outcome in outcomes {
            let Some(index) = refused.iter().position(|line| line.number == outcome.number) else { continue };
            if let Some(result) = refused.get(index).and_then(|line| results.get_mut(line.position)) {
                *result = render(std::slice::from_ref(outcome));
            }
            if outcome.result.is_ok() {
                refused.remove(index);
            }
        }
        Self { refused, results: results.concat().into(), ..self.clone() }
    }
}

/// Takes the first line off, without its line break.
fn take_header(bytes: &mut Bytes) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes.split_to(end + 1);
    Some(std::str::from_utf8(line.get(..end)?).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchLineStatus;

    #[test]
    fn chunks_round_trip() {
        let refused =
            |position, number, text: &'static str| RefusedLine { position, number, text: Some(text.into()) };
        let chunk = JournalChunk {
            first_line: 3,
            last_line: 9,
            fingerprint: "f".into(),
            refused: vec![
                refused(0, 3, "a\nb"),
                RefusedLine { position: 1, number: 5, text: None },
                refused(2, 9, ""),
            ],
            results: "no\nyes\nno\n".into(),
        };
        assert_eq!(JournalChunk::parse(chunk.to_bytes().into()).as_ref(), Some(&chunk));
        let stored = chunk.to_bytes();
        for end in 0..stored.len() - chunk.results.len() {
            let _ = JournalChunk::parse(Bytes::copy_from_slice(&stored[..end]));
        }
        assert_eq!(JournalChunk::parse("1 2 f 99\nx".into()), None);
        let outcome = BatchLineOutcome {
            number: 9,
            name: None,
            result: Ok(BatchLineStatus::Created),
            warnings: Vec::new(),
            input_form: None,
        };
        let updated = chunk.with_outcomes(&[outcome], |_| "created\n".into());
        assert_eq!((updated.refused.len(), &updated.results[..]), (2, &b"no\nyes\ncreated\n"[..]));
    }
}
