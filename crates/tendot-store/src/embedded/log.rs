//! Entries of the log: see `docs/storage-format.md`.

use super::varint;
use crate::{EditKind, Logged};

const KINDS: [(u64, EditKind); 6] = [
    (1, EditKind::Create),
    (2, EditKind::Update),
    (3, EditKind::Tombstone),
    (4, EditKind::Remove),
    (5, EditKind::Home),
    (6, EditKind::Unhome),
];

pub(super) fn encode(line: &Logged) -> Vec<u8> {
    let number = KINDS.iter().find(|(_, kind)| *kind == line.kind).map_or(0, |(number, _)| *number);
    let mut out = Vec::with_capacity(48);
    varint::put(&mut out, number);
    varint::put(&mut out, line.revision);
    varint::put(&mut out, line.at);
    varint::put_bytes(&mut out, line.by.as_bytes());
    varint::put_bytes(&mut out, line.name.as_bytes());
    out
}

pub(super) fn decode(sequence: u64, mut bytes: &[u8]) -> Option<Logged> {
    let bytes = &mut bytes;
    let number = varint::take(bytes)?;
    let (_, kind) = KINDS.iter().find(|(known, _)| *known == number)?;
    let line = Logged {
        sequence,
        kind: *kind,
        revision: varint::take(bytes)?,
        at: varint::take(bytes)?,
        by: text(bytes)?,
        name: text(bytes)?,
    };
    bytes.is_empty().then_some(line)
}

fn text(bytes: &mut &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(varint::take_bytes(bytes)?).ok().map(Into::into)
}
