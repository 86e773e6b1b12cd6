//! The recordings, for all tests that use them.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::path::PathBuf;

pub struct Recording {
    pub name: String,
    pub transport: String,
    pub request: bool,
    pub bytes: Vec<u8>,
    pub note: String,
    /// The datagrams of this message up to this one, if this is the last of several.
    earlier: Vec<Vec<u8>>,
}

pub fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net")
}

pub fn recordings() -> Vec<Recording> {
    let file = std::fs::read_to_string(vectors().join("native.jsonl")).unwrap();
    let mut fragments: HashMap<(String, Vec<u8>), Vec<Vec<u8>>> = HashMap::new();
    let mut all = Vec::new();
    for line in file.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| row[name].as_str().unwrap().to_owned();
        let bytes = unhex(&field("hex"));
        let mut recording = Recording {
            name: field("name"),
            transport: field("transport"),
            request: field("direction") == "request",
            bytes,
            note: field("note"),
            earlier: Vec::new(),
        };
        if recording.note.contains("| fragment: ") {
            let conversation = recording.name.split('#').next().unwrap().to_owned() + &field("direction");
            let of = fragments.entry((conversation, recording.bytes[8..12].to_vec())).or_default();
            of.push(recording.bytes.clone());
            if recording.note.contains("| last of ") {
                recording.earlier = std::mem::take(of);
            }
        }
        all.push(recording);
    }
    all
}

impl Recording {
    /// The number of fragments and what they carried, if this is the last of several datagrams.
    pub fn reassembled(&self) -> Option<(usize, Vec<u8>)> {
        let whole = self.earlier.iter().flat_map(|datagram| &datagram[20..]).copied().collect();
        (!self.earlier.is_empty()).then_some((self.earlier.len(), whole))
    }

    /// The decode in the note, without what the test was about and without what the client made of it.
    pub fn decoded_note(&self) -> String {
        let from = self.note.find("envelope{").unwrap();
        let decoded = &self.note[from..];
        let until = decoded.find(" | client library saw").unwrap_or(decoded.len());
        decoded[..until].to_owned()
    }
}

/// The encodings of `encodings.txt`.
pub fn encodings() -> Vec<(String, Vec<u8>)> {
    let file = std::fs::read_to_string(vectors().join("encodings.txt")).unwrap();
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(name, hex)| (name.to_owned(), unhex(hex))).collect()
}

/// One of them.
pub fn encoding(name: &str) -> Vec<u8> {
    encodings()
        .into_iter()
        .find(|(of, _)| of == name)
        .unwrap_or_else(|| panic!("no encoding called {name}"))
        .1
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
