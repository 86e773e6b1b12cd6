//! Audit chain: each log entry carries the hash of the one before and a digest of its content.

use std::fmt;

use data_encoding::HEXLOWER;

use super::sha256::sha256;
use super::varint;
use crate::{EditKind, LogEntry, StoreHead};

/// SHA-256 hash in the audit chain of the change log.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct LogHash(pub [u8; 32]);

impl LogHash {
    /// Parses 64 hexadecimal digits in lower case.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_write(&self.0, f)
    }
}

impl fmt::Debug for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogHash({self})")
    }
}

/// Link of a log entry in the audit chain.
///
/// The hash of an entry covers the previous hash and the digest of the content, not the content itself: content can be redacted
/// without breaking the chain. The encoding is described in `docs/background/storage-format.md`.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, LogHash, MemoryStore, Store};
///
/// # pollster::block_on(async {
/// let store = MemoryStore::new();
/// for prefix in ["10.1000", "10.1001"] {
///     let edits = vec![Edit::Home { prefix: prefix.into() }];
///     store.commit(ChangeSet { author: "operator".into(), timestamp_ms: 0, edits }).await?;
/// }
/// let log = store.read_log(0, 2).await?;
/// assert_eq!(log[0].link.previous_hash, LogHash::default());
/// assert_eq!(log[1].link.previous_hash, log[0].link.hash());
/// assert_eq!(store.head().await?.log_hash, log[1].link.hash());
/// assert_eq!(log[1].link.content_digest, log[1].compute_content_digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ChainLink {
    /// Hash of the log entry before; zeros for the first one.
    pub previous_hash: LogHash,
    /// Digest of the entry's content; see [`LogEntry::compute_content_digest`].
    pub content_digest: LogHash,
}

impl ChainLink {
    /// Hash of the log entry: SHA-256 of a zero byte, the previous hash and the content's digest.
    pub fn hash(&self) -> LogHash {
        // No content starts with a zero byte, so a link is never the digest of a content.
        let mut bytes = [0; 65];
        let (previous, content) = bytes[1..].split_at_mut(32);
        previous.copy_from_slice(&self.previous_hash.0);
        content.copy_from_slice(&self.content_digest.0);
        LogHash(sha256(&bytes))
    }
}

impl LogEntry {
    /// Computes the digest of the content: SHA-256 of kind, revision, time, author, name and, for an import, the number of records.
    pub fn compute_content_digest(&self) -> LogHash {
        let mut content = Vec::new();
        self.encode_content(&mut content);
        LogHash(sha256(&content))
    }

    /// Appends the encoded content, the input of the content digest.
    pub(crate) fn encode_content(&self, out: &mut Vec<u8>) {
        out.reserve(32 + self.author.len() + self.name.len());
        varint::write(out, self.kind.code().into());
        varint::write(out, self.revision);
        varint::write(out, self.timestamp_ms);
        varint::write_bytes(out, self.author.as_bytes());
        varint::write_bytes(out, self.name.as_bytes());
        if self.kind == EditKind::Import {
            varint::write(out, self.record_count);
        }
    }

    /// Decodes the content of an entry; `None` if it is invalid.
    pub(crate) fn decode_content(sequence: u64, link: ChainLink, mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let text = |bytes: &mut &[u8]| std::str::from_utf8(varint::read_bytes(bytes)?).ok().map(Box::from);
        let kind = EditKind::from_code(varint::read(bytes)?)?;
        let entry = Self {
            sequence,
            kind,
            revision: varint::read(bytes)?,
            timestamp_ms: varint::read(bytes)?,
            author: text(bytes)?,
            name: text(bytes)?,
            record_count: if kind == EditKind::Import { varint::read(bytes)? } else { 1 },
            link,
        };
        bytes.is_empty().then_some(entry)
    }
}

impl StoreHead {
    /// Appends an entry to the log: gives it the next sequence number and its link. `content` receives its encoded content.
    pub(crate) fn append(&mut self, entry: &mut LogEntry, content: &mut Vec<u8>) {
        content.clear();
        entry.encode_content(content);
        self.sequence += 1;
        entry.sequence = self.sequence;
        entry.link = ChainLink { previous_hash: self.log_hash, content_digest: LogHash(sha256(content)) };
        self.log_hash = entry.link.hash();
    }

    /// Moves the head to an entry that was copied from another store.
    pub(crate) fn advance_to(&mut self, entry: &LogEntry) {
        self.revision = self.revision.max(entry.revision);
        (self.sequence, self.log_hash) = (entry.sequence, entry.link.hash());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Entry with fixed content, so that the encoding and the hashes are compared with values computed by other programs.
    fn entry(kind: EditKind, record_count: u64) -> LogEntry {
        LogEntry {
            sequence: 0,
            revision: 300,
            timestamp_ms: 1_700_000_000_000,
            author: "operator".into(),
            kind,
            name: if kind == EditKind::Import { "" } else { "10.1000/182" }.into(),
            record_count,
            link: ChainLink::default(),
        }
    }

    /// The hashes are part of the stored format. Computed by another program from the documented bytes.
    #[test]
    fn hashes_are_stable() {
        let (mut head, mut content) = (StoreHead::default(), Vec::new());
        let mut first = entry(EditKind::Create, 1);
        head.append(&mut first, &mut content);
        assert_eq!(content, b"\x01\xac\x02\x80\xd0\x95\xff\xbc\x31\x08operator\x0b10.1000/182");
        assert_eq!(first.link.previous_hash, LogHash::default());
        assert_eq!(
            first.link.content_digest.to_string(),
            "447885e4efcc68927a40bda3f3cd1fc4c76d312f4e17676c521fa8c2040c303e"
        );
        let mut second = entry(EditKind::Import, 5);
        head.append(&mut second, &mut content);
        assert_eq!(content, b"\x07\xac\x02\x80\xd0\x95\xff\xbc\x31\x08operator\x00\x05");
        assert_eq!((second.sequence, second.link.previous_hash), (2, first.link.hash()));
        assert_eq!(head.log_hash, second.link.hash());
        assert_eq!(
            head.log_hash.to_string(),
            "82f1509de6ce94f0930ceb6e817a4a3dbae57565d0ede2b206e0823dd699d8f1"
        );
    }

    proptest! {
        #[test]
        fn content_round_trip(
            sequence: u64, revision: u64, timestamp_ms: u64, author: String, name: String, code in 1_u64..=8, count: u64,
        ) {
            let kind = EditKind::from_code(code).unwrap();
            let record_count = if kind == EditKind::Import { count } else { 1 };
            let link = ChainLink { previous_hash: LogHash([1; 32]), content_digest: LogHash([2; 32]) };
            let (author, name) = (author.into(), name.into());
            let entry = LogEntry { sequence, revision, timestamp_ms, author, kind, name, record_count, link };
            let mut content = Vec::new();
            entry.encode_content(&mut content);
            prop_assert_ne!(content[0], 0);
            prop_assert_eq!(LogEntry::decode_content(sequence, link, &content), Some(entry));
            prop_assert_eq!(LogEntry::decode_content(sequence, link, &content[..content.len() - 1]), None);
        }
    }
}
