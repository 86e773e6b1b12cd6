//! Conversations recorded from a Handle.Net server, in `conformance/vectors/handle-net/native.jsonl`.

use std::collections::HashMap;

use crate::handle_keys::handle_net_file;
use crate::hex;

/// A recorded message, or a datagram that is part of one.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The conversation and the number in it, `resolve_one#2`.
    pub name: String,
    /// `udp` or `tcp`.
    pub transport: String,
    /// Whether the client sent it.
    pub request: bool,
    /// The message with its envelope.
    pub bytes: Vec<u8>,
    /// What the recording is about, the decoded message, and what the client made of it.
    pub note: String,
    /// The datagrams of this message up to this one, if this is the last of several.
    earlier: Vec<Vec<u8>>,
}

/// All recorded messages, in their order.
pub fn recordings() -> Vec<Recording> {
    let file = String::from_utf8(handle_net_file("native.jsonl")).unwrap();
    let mut fragments: HashMap<(String, Vec<u8>), Vec<Vec<u8>>> = HashMap::new();
    let mut all = Vec::new();
    for line in file.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| row[name].as_str().unwrap().to_owned();
        let mut recording = Recording {
            name: field("name"),
            transport: field("transport"),
            request: field("direction") == "request",
            bytes: hex::decode(&field("hex")),
            note: field("note"),
            earlier: Vec::new(),
        };
        if recording.note.contains("| fragment: ") {
            let conversation = recording.name.split('#').next().unwrap().to_owned() + &field("direction");
            let datagrams = fragments.entry((conversation, recording.bytes[8..12].to_vec())).or_default();
            datagrams.push(recording.bytes.clone());
            if recording.note.contains("| last of ") {
                recording.earlier = std::mem::take(datagrams);
            }
        }
        all.push(recording);
    }
    all
}

impl Recording {
    /// The number of fragments and their joined payload, if this is the last of several datagrams.
    pub fn reassembled(&self) -> Option<(usize, Vec<u8>)> {
        let payload = self.earlier.iter().flat_map(|datagram| &datagram[20..]).copied().collect();
        (!self.earlier.is_empty()).then_some((self.earlier.len(), payload))
    }
}
