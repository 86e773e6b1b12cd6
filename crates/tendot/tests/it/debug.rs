//! `tendot debug` decodes, encodes and verifies the messages and values that were recorded from Handle.Net software.

use std::process::Output;

use tendot_testing::conformance;

use crate::support::tendot;

fn debug(arguments: &[&str]) -> Output {
    tendot().arg("debug").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn vectors(file: &str) -> String {
    std::fs::read_to_string(conformance("vectors/handle-net").join(file)).unwrap()
}

/// The number after `name=` in a note.
fn number_in(note: &str, name: &str) -> Option<u64> {
    let after = note.split_once(&format!("{name}="))?.1;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn recorded_messages() {
    const MALFORMED: [&str; 4] =
        ["raw_short_message#1", "raw_truncated_body#1", "raw_bad_handle_length#1", "raw_udp_garbage#1"];
    let mut checked = 0;
    for line in vectors("native.jsonl").lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let [name, hex, note] = ["name", "hex", "note"].map(|field| row[field].as_str().unwrap());
        let decoded = debug(&["message", "--json", hex]);
        let reencoded = debug(&["message", "--reencode", hex]);
        if MALFORMED.contains(&name) {
            for output in [decoded, reencoded] {
                assert_eq!(output.status.code(), Some(2), "{name}");
                assert!(output.stdout.is_empty());
                assert!(text(&output.stderr).starts_with("error: malformed message: "), "{name}");
            }
            continue;
        }
        assert_eq!(text(&reencoded.stdout), format!("{hex}\n"), "{name}");
        let first = text(&decoded.stdout).lines().next().unwrap();
        let json: serde_json::Value = serde_json::from_str(first).unwrap();
        for field in ["messageLength", "sessionId"] {
            assert_eq!(json[field].as_u64(), number_in(note, field), "{name} {field}");
        }
        // Only the first datagram of a message has a header; the notes of the others describe the whole message.
        if json["sequence"] == 0 && json.get("encrypted").is_none() {
            for field in
                ["opCode", "responseCode", "siteInfoSerial", "recursionCount", "expiration", "bodyLength"]
            {
                let expected = number_in(note, field);
                assert!(json[field].is_u64(), "{name} {field}");
                assert!(expected.is_none() || json[field].as_u64() == expected, "{name} {field}");
            }
        }
        checked += 1;
    }
    assert_eq!(checked, 252);
}

/// The bytes of a recorded message.
fn recorded(name: &str) -> String {
    let rows = vectors("native.jsonl");
    let mut rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.find(|row| row["name"] == name).unwrap()["hex"].as_str().unwrap().to_owned()
}

#[test]
fn recorded_credentials() {
    let key = conformance("vectors/handle-net/pubkey.bin");
    let key = key.to_str().unwrap();
    let other = key.replace("pubkey", "admpub");
    let signed = recorded("flag_certify_udp#2");
    let check = |arguments: &[&str], code: i32, valid: Option<bool>| {
        let output = debug(&[&["message", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["credential"]["valid"].as_bool(), valid);
    };
    check(&["--public-key", key, &signed], 0, Some(true));
    check(&["--public-key", &other, &signed], 1, Some(false));
    check(&[&signed], 0, None);

    // Messages of a session with a known key are decrypted, and their MACs are valid.
    let session_key = "d2fba46b6ac04ef233bfe6b6505528232b80c69bfdba5973408689f88ccefdb2";
    for (name, opcode) in [("session_encrypted_create#4", 100), ("session_encrypted_delete#2", 101)] {
        let hex = recorded(name);
        check(&["--session-key", session_key, &hex], 0, Some(true));
        let output = debug(&["message", "--json", "--session-key", session_key, &hex]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["opCode"], opcode);
    }
    let wrong = session_key.replace('d', "e");
    let output = debug(&["message", "--session-key", &wrong, &recorded("session_encrypted_create#4")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).starts_with("error: cannot decrypt the message"),
        "{}",
        text(&output.stderr)
    );
    let output = debug(&["message", "--session-key", "00", &signed]);
    assert_eq!(text(&output.stderr), "error: a session key must be 32 bytes, not 1\n");
}

#[test]
fn reassembles_datagrams() {
    let hex = [recorded("resolve_multi_udp#2"), recorded("resolve_multi_udp#3")];
    let output = debug(&["message", "--json", &hex[1], &hex[0]]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["body"]["values"].as_array().unwrap().len(), 8);
    // The header of an encrypted message cannot be decoded.
    let encrypted = hex[0].replacen("020b220b", "020b620b", 1);
    let output = debug(&["message", "--json", &encrypted]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json.get("opCode"), json["fragmentLength"].as_u64()), (None, Some(492)));
}

#[test]
fn encodings() {
    for line in vectors("encodings.txt").lines().filter(|line| !line.starts_with('#')) {
        let (name, hex) = line.split_once(' ').unwrap();
        let arguments = match name {
            "val_url" | "val_abs" | "rqd_body" | "chal_digest" | "cred" | "privfile" => continue,
            "admin" | "admin_legacy" => vec!["value", "HS_ADMIN"],
            "vlist" => vec!["value", "HS_VLIST"],
            "rsa_pub" | "dsa_pub" => vec!["value", "HS_PUBKEY"],
            "dh_pub" => vec!["value", "HS_PUBKEY"],
            "site" => vec!["value", "HS_SITE"],
            "seckey_sha1" | "seckey_pbkdf2" | "seckey_hash" => vec!["value", "HS_SECKEY"],
            _ => vec!["message"],
        };
        let output = debug(&[&arguments[..], &["--reencode", hex]].concat());
        assert_eq!(text(&output.stdout), format!("{hex}\n"), "{name}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

#[test]
fn message_as_text() {
    let hex = vectors("encodings.txt");
    let hex = hex.lines().find_map(|line| line.strip_prefix("resp_res ")).unwrap();
    let output = debug(&["message", hex]);
    assert_eq!(
        text(&output.stdout),
        "\
version           2.11
suggestedVersion  2.11
envelopeFlags     none
sessionId         0
requestId         16909060
sequence          0
messageLength     94
opCode            1
opCodeName        OC_RESOLUTION
responseCode      1
responseCodeName  RC_SUCCESS
opFlags           0x99000000
opFlagNames       AT, REC, CA, PO
siteInfoSerial    5
recursionCount    0
expiration        1694498816 (2023-09-12T06:06:56Z)
bodyLength        66
body
  handle  10.1000/1
  values
        1 URL https://example.org/  (2023-03-02T01:46:40Z)
credential        none
"
    );
}

#[test]
fn value_as_text_and_json() {
    let hex = "0x07f3:00000007 302e4e41:2f3130 000000c8";
    let json = "{\"type\":\"HS_ADMIN\",\"length\":17,\"format\":\"admin\",\"value\":\
                {\"handle\":\"0.NA/10\",\"index\":200,\"permissions\":\"011111110011\"}}\n";
    assert_eq!(text(&debug(&["value", "--json", "HS_ADMIN", hex]).stdout), json);
    assert_eq!(
        text(&debug(&["value", "URL", "68747470733a2f2f782f1b"]).stdout),
        "type    URL\nlength  11\nformat  base64\nvalue   aHR0cHM6Ly94Lxs=\n"
    );
}

#[test]
fn malformed_input_names_field_and_offset() {
    check(&["value", "HS_ADMIN", "07f3"], "malformed HS_ADMIN: ");
    check(&["value", "HS_ADMIN", "07f"], "invalid hex `07f`: odd number of digits (3)");
    check(&["message", "02xx"], "invalid hex `02xx`: invalid digit at position 3");
    check(&["message", ""], "malformed message: envelope at byte 0: needs 20 bytes, only 0 left");
    let twice = recorded("resolve_all_tcp#1") + "02";
    let error = "malformed message at byte 71: envelope at byte 0: needs 20 bytes, only 1 left";
    check(&["message", &twice], error);
    check(&["message", "02 0b"], "malformed message: envelope at byte 0: needs 20 bytes, only 2 left");
}

#[track_caller]
fn check(arguments: &[&str], error: &str) {
    let output = debug(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(text(&output.stderr).starts_with(&format!("error: {error}")), "{}", text(&output.stderr));
}
