//! `tendot verify` reports damaged records, damaged pages and truncated files.

use std::fs;

use serde_json::{Value as Json, json};
use tendot_testing::repetitions;

use super::{StoreDir, generate_records, to_lines};
use crate::support::stderr;

#[test]
fn verify_reports_damage() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(200)));
    store.import(&[&file], 0);
    let verified: Json = serde_json::from_slice(&store.run_ok(&["verify", "--json"])).unwrap();
    assert_eq!(
        (&verified["records"], &verified["prefixes"], &verified["damaged"]),
        (&json!(200), &json!(50), &json!(0))
    );
    let path = store.dir.file("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let name = b"10.5007/REC-7";
    let offsets: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| at == name).map(|(at, _)| at).collect();
    for offset in offsets {
        bytes[offset + name.len() + 4] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let output = store.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("record `10.5007/REC-7"), "{report}");
    let output = store.run(&["verify", "--json"]);
    let last = output.stdout.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap().to_vec();
    let last: Json = serde_json::from_slice(&last).unwrap();
    assert_eq!(last["damaged"], json!(report.lines().count()));
    let output = store.run(&["export", store.dir.file("out").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: run `tendot verify`"), "{}", stderr(&output));
    assert!(!store.dir.file("out").exists());
}

/// An import accepts keys that cannot authenticate, and warns; a verification reports them, and they are no damage.
#[test]
fn audit_f5_f18_unusable_keys_are_reported() {
    let store = StoreDir::new();
    let record = |name: &str, value: Json| json!({"handle": name, "values": [value]}).to_string() + "\n";
    let secret = |permissions: &str| {
        json!({"index": 300, "type": "HS_SECKEY", "permissions": permissions,
            "data": {"format": "string", "value": "opensesame"}})
    };
    let key = json!({"index": 301, "type": "HS_PUBKEY", "data": {"format": "base64", "value": "AAAA"}});
    let lines = [
        record("10.5555/EXPOSED", secret("1110")),
        record("10.5555/PRIVATE", secret("1100")),
        record("10.5555/UNUSABLE", key),
    ];
    let file = store.dir.write("records.jsonl", lines.concat());
    let output = store.run(&["import", &file, "--json"]);
    let printed = stderr(&output);
    let imported: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&imported["created"], &imported["warnings"]), (&json!(3), &json!(2)), "{printed}");
    for expected in [
        "`10.5555/EXPOSED`: HS_SECKEY at index 300 was publicly readable and cannot authenticate; replace it",
        "`10.5555/UNUSABLE`: HS_PUBKEY at index 301 is unusable: malformed data",
    ] {
        assert!(printed.contains(expected), "{printed}");
        let output = store.run(&["verify"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let output = store.run_ok(&["verify", "--json"]);
    let lines: Vec<Json> = output
        .trim_ascii()
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["damaged"], &lines[2]["unusable_keys"]), (&json!(0), &json!(2)));
    assert!(!printed.contains("opensesame") && !String::from_utf8(output).unwrap().contains("opensesame"));
}

/// After any bit flip or truncation, a store that `verify` reports as undamaged still exports the same records.
#[test]
fn verify_reports_any_bit_flip() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(300)));
    store.import(&[&file], 0);
    let exported = store.run_ok(&["export"]);
    let path = store.dir.file("data/data.mdb");
    let good = fs::read(&path).unwrap();
    let (mut undamaged, mut damaged) = (0, 0);
    for round in 0..repetitions("TENDOT_TEST_BIT_FLIPS", 60, 400) as usize {
        let mut bytes = good.clone();
        // Spread over the pages; every other flip is in a page header, where LMDB is most sensitive.
        let at = round * 2_654_435_761 % bytes.len();
        match round {
            0..5 => bytes.truncate(at),
            _ if round % 2 == 0 => bytes[at / 4_096 * 4_096 + at % 32] ^= 1 << (round % 8),
            _ => bytes[at] ^= 1 << (round % 8),
        }
        let _ = fs::remove_file(store.dir.file("data/lock.mdb"));
        fs::write(&path, bytes).unwrap();
        let output = store.run(&["verify"]);
        match output.status.code() {
            Some(0) => {
                undamaged += 1;
                assert!(store.run_ok(&["export"]) == exported, "round {round}");
            }
            Some(1) => {
                damaged += 1;
                assert!(!output.stdout.is_empty(), "round {round}");
            }
            code => assert_eq!(code, Some(2), "round {round}: {}", stderr(&output)),
        }
    }
    assert!(undamaged > 0 && damaged > 0, "{undamaged} undamaged, {damaged} damaged");
}

#[test]
fn truncated_store_is_reported_as_damage() {
    let store = StoreDir::new();
    let records = store.dir.write("one.csv", "10.1000/1,https://example.org/\n");
    store.import(&[&records], 0);
    let file = store.dir.file("data/data.mdb");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..3 * 4_096]).unwrap();
    let output = store.run(&["verify", "--json"]);
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!((output.status.code(), lines.contains("is truncated")), (Some(1), true), "{lines}");
}

/// Damages the value of a record in all pages.
fn damage_record(store: &StoreDir, name: &[u8]) {
    let path = store.dir.file("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let offsets: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| *at == name).map(|(at, _)| at).collect();
    assert!(!offsets.is_empty());
    for offset in offsets {
        bytes[offset + name.len() + 4] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
}

/// Single damaged names are restored from a backup, with the command that `verify` prints; names that changed since are not.
#[test]
fn damaged_names_are_restored() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(200)));
    store.import(&[&file], 0);
    let backup = store.dir.file("backup");
    let backup = backup.to_str().unwrap();
    store.run_ok(&["backup", backup]);
    let exported = store.run_ok(&["export"]);
    let new = json!({"handle": "10.5555/NEW", "values": [{"index": 1, "type": "URL",
        "data": {"format": "string", "value": "https://new.example.org/"}}]});
    store.import(&[&store.dir.write("new.jsonl", new.to_string() + "\n")], 0);
    for name in [&b"10.5007/REC-7"[..], b"10.5555/NEW"] {
        damage_record(&store, name);
    }
    let output = store.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = stderr(&output);
    assert!(printed.contains("stop the server and run `tendot restore --"), "{printed}");

    let output = store.run(&["restore", "--name", "10.5555/new", "--name", "10.5008/rec-8", backup]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(printed.contains("`10.5555/NEW`: not restored: the backup does not have it"), "{printed}");
    assert!(printed.contains("`10.5008/REC-8`: not damaged, not changed"), "{printed}");
    let output = store.run(&["restore", "--damaged", "--json", backup]);
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert_eq!(json["missing"], json!(["10.5555/NEW"]));
    assert!(json["restored"].as_array().is_some_and(|names| !names.is_empty()), "{json}");
    let output = store.run(&["verify"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);

    // The name that the backup does not have is in a later one.
    store.run_ok(&["restore", "--force", "--yes", backup]);
    assert_eq!(store.run_ok(&["export"]), exported);
    store.run_ok(&["verify"]);
    let other = StoreDir::new();
    other.import(&[&file], 0);
    damage_record(&other, b"10.5007/REC-7");
    let output = other.run(&["restore", "--damaged", backup]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not an earlier state of this store"), "{}", stderr(&output));
}
