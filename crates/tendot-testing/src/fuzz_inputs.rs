//! Inputs of the fuzz targets: seeds made from the vectors, and the corpora in `fuzz/corpora`.

use std::fs;

use crate::{conformance, hex, workspace_root};

/// The names of the targets.
pub const TARGETS: [&str; 11] = [
    "name_parse",
    "name_format",
    "extract",
    "message",
    "message_body",
    "value_data",
    "record_json",
    "reassembly",
    "auth",
    "lookup",
    "replication",
];

/// The seeds and the saved corpus of a target.
#[track_caller]
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = match target {
        "name_parse" | "name_format" | "extract" => name_seeds(),
        "message" | "reassembly" | "auth" | "lookup" => message_seeds(),
        "message_body" => body_seeds(),
        "value_data" => value_seeds(),
        "record_json" => record_seeds(),
        "replication" => replication_seeds(),
        _ => panic!("unknown fuzz target `{target}`"),
    };
    // A new target has no corpus yet.
    let corpus = workspace_root().join("fuzz/corpora").join(format!("{target}.hex"));
    inputs.extend(fs::read_to_string(corpus).unwrap_or_default().lines().map(hex::decode));
    inputs
}

fn vectors(file: &str) -> String {
    let path = conformance("vectors").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The inputs of the vectors of names.
fn name_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in (vectors("names.jsonl") + &vectors("names-more.jsonl")).lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(input) = case["input"].as_str() {
            seeds.push(input.into());
            // The target for extraction takes its settings from the first byte.
            seeds.push(format!("\0{input}").into());
        }
    }
    seeds
}

/// The messages that were recorded.
fn message_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/native.jsonl").lines() {
        let recorded: serde_json::Value = serde_json::from_str(line).unwrap();
        seeds.push(hex::decode(recorded["hex"].as_str().unwrap()));
    }
    seeds
}

/// Their bodies, after operation, code, flags and version as the target takes them.
fn body_seeds() -> Vec<Vec<u8>> {
    let messages = message_seeds().into_iter().filter(|message| message.len() > 44 && message[2] < 0x20);
    messages
        .map(|message| {
            [&message[22..24], &message[26..28], &message[29..30], &message[1..2], &message[44..]].concat()
        })
        .collect()
}

/// Data of values after their type and a zero.
fn value_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/encodings.txt").lines() {
        let Some((name, digits)) = line.split_once(' ') else { continue };
        let value_type = match name {
            "admin" | "admin_legacy" => "HS_ADMIN",
            "vlist" => "HS_VLIST",
            "rsa_pub" | "dsa_pub" | "dh_pub" => "HS_PUBKEY",
            "site" => "HS_SITE",
            _ => continue,
        };
        seeds.push([value_type.as_bytes(), &[0], &hex::decode(digits)].concat());
    }
    for (value_type, text) in TEXTS {
        seeds.push([value_type.as_bytes(), &[0], text.as_bytes()].concat());
    }
    seeds
}

const TEXTS: [(&str, &str); 6] = [
    (
        "10320/loc",
        r#"<locations chooseby="locatt,weighted"><location id="0" href="https://a/" weight="1"/></locations>"#,
    ),
    ("10320/links", r#"<locations><location href="https://a/" rel="license"/></locations>"#),
    ("10320/headers", "X-One: two\n<meta name=\"a\">"),
    (
        "HS_NAMESPACE",
        "<namespace><contact>a@b</contact><locs>10.SERV/X</locs><template delimiter=\"@\"/></namespace>",
    ),
    ("HS_SIGNATURE", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6ImEvYyJ9.AAAA"),
    ("HS_CERT", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6IjE6YS9jIiwicGVybXMiOltdfQ.AAAA"),
];

/// The records that the recordings were made with.
fn record_seeds() -> Vec<Vec<u8>> {
    vectors("handle-net/records.jsonl").lines().map(Into::into).collect()
}

/// A little of each stream, after the byte that the target takes its settings from; states as text and JSON.
fn replication_seeds() -> Vec<Vec<u8>> {
    let value = "0000001a 00000001 00000000 00 00015180 0e 00000000 00000000 00000000";
    let streams = [
        "00 00000001 00000002 01 0000000000000065 00000003 412f42 02 0000018bcfe56800 00 0000018bcfe56800"
            .into(),
        format!(
            "00 00000002 00000002 02 00000009 303a736f7572636573 01 0000000000000065 00000003 412f42 01 \
             0000018bcfe56800 00000001 {value} 03 0000018bcfe56800 00"
        ),
        format!(
            "01 00000002 05 00000002 7b7d 00 0000018bcfe56800 0000000000000065 \
             03 00000003 412f42 0000018bcfe56800 00000001 04 00000003 412f42 0000018bcfe56800 00000001 \
             01 00000003 412f42 00000001 {value} 02 00000003 412f42 ff"
        ),
    ];
    let mut seeds = Vec::new();
    for stream in streams {
        seeds.push(hex::decode(&stream));
    }
    seeds.push(br#"{ "a" = ( { "last_txn_id" = "5" "last_timestamp" = "6" } { } ) b = "\"\\\n" }"#.into());
    seeds.push(
        br#"{"replicationServerStates":{"0:a":{"lastTxnId":5,"lastTimestamp":6}},"ownName":"b"}"#.into(),
    );
    seeds
}
