//! Recorded messages of Handle.Net 9.3.1 and its client, in `conformance/vectors/handle-net`.

use std::collections::HashMap;

use serde_json::Value as Json;

use crate::handle_keys::handle_net_file;
use crate::hex;

/// A recorded message of Handle.Net, or one datagram of it.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The conversation and the position in it, such as `create_handle#2`.
    pub name: String,
    /// `udp`, `tcp` or `http`.
    pub transport: String,
    /// True if the client sent it.
    pub is_request: bool,
    /// The bytes as they were sent.
    pub bytes: Vec<u8>,
    /// Message as decoded by the recorder, as text.
    pub note: String,
    /// The datagrams of this message including this one, if this is the last of several.
    datagrams: Vec<Vec<u8>>,
}

/// All recordings, in the order in which they were made.
pub fn recordings() -> Vec<Recording> {
    let mut fragments: HashMap<(String, Vec<u8>), Vec<Vec<u8>>> = HashMap::new();
    let mut all = Vec::new();
    for line in text_file("native.jsonl").lines() {
        let row: Json = serde_json::from_str(line).unwrap();
        let field = |name: &str| row[name].as_str().unwrap().to_owned();
        let mut recording = Recording {
            name: field("name"),
            transport: field("transport"),
            is_request: field("direction") == "request",
            bytes: hex::decode(&field("hex")),
            note: field("note"),
            datagrams: Vec::new(),
        };
        if recording.note.contains("| fragment: ") {
            let sender = recording.conversation().to_owned() + &field("direction");
            let request_id = recording.bytes[8..12].to_vec();
            let datagrams = fragments.entry((sender, request_id)).or_default();
            datagrams.push(recording.bytes.clone());
            if recording.note.contains("| last of ") {
                recording.datagrams = std::mem::take(datagrams);
            }
        }
        all.push(recording);
    }
    all
}

impl Recording {
    /// The name of the conversation.
    pub fn conversation(&self) -> &str {
        self.name.split('#').next().unwrap()
    }

    /// The number of fragments and their joined payload, if this is the last of several datagrams.
    pub fn reassembled(&self) -> Option<(usize, Vec<u8>)> {
        let payload = self.datagrams.iter().flat_map(|datagram| &datagram[20..]).copied().collect();
        (!self.datagrams.is_empty()).then_some((self.datagrams.len(), payload))
    }

    /// The decoded message in the note, without the purpose of the recording and the client's interpretation.
    pub fn decoded_note(&self) -> &str {
        let decoded = &self.note[self.note.find("envelope{").unwrap()..];
        decoded.split(" | client library saw").next().unwrap()
    }
}

/// The names and bytes of all encodings in `encodings.txt`.
pub fn encodings() -> Vec<(String, Vec<u8>)> {
    let file = text_file("encodings.txt");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(' ').unwrap());
    pairs.map(|(name, digits)| (name.to_owned(), hex::decode(digits))).collect()
}

/// The encoding with this name.
#[track_caller]
pub fn encoding(name: &str) -> Vec<u8> {
    let found = encodings().into_iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no encoding `{name}`")).1
}

fn text_file(name: &str) -> String {
    String::from_utf8(handle_net_file(name)).unwrap()
}
