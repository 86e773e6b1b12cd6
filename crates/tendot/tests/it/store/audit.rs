//! `tendot audit`: an exported change log is verified without the store, and compared with it.

use serde_json::{Value as Json, json};

use super::{StoreDir, generate_records, to_lines};
use crate::support::{StoreKind, TestDir, output_with_input, stderr, tests_per_store};

tests_per_store!(audit_log_is_exported);

/// The log of each store is exported, verified and found again in the store.
fn audit_log_is_exported(store: StoreKind) {
    let (dir, variables) = (TestDir::new(), store.env());
    let run = |arguments: &[&str], input: &str| {
        let mut command = dir.tendot(arguments);
        let output = output_with_input(command.envs(variables.clone()), input.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for name in ["10.1000/1", "10.1000/\u{e9}"] {
        run(&["import", "--format", "csv", "-"], &format!("{name},https://example.org/\n"));
    }
    let log = run(&["audit", "export"], "");
    let lines: Vec<Json> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The first import also homes the prefix.
    let count = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((lines.len(), count("home"), count("import")), (3, 1, 2), "{log}");
    for (line, sequence) in lines.iter().zip(1_u64..) {
        assert_eq!((&line["sequence"], &line["author"]), (&json!(sequence), &json!("import")));
        assert_eq!(line["records"], if line["kind"] == "import" { json!(1) } else { Json::Null });
    }
    assert!(lines.windows(2).all(|pair| pair[1]["previous_hash"] == pair[0]["hash"]), "{log}");
    let verified = run(&["audit", "compare", "--json", "-"], &log);
    let verified: Json = serde_json::from_str(&verified).unwrap();
    assert_eq!(verified, json!({"entries": 3, "first": 1, "last": 3, "hash": lines[2]["hash"], "faults": 0}));
}

/// Log of a store with some imports: an entry for each, and one for the prefix.
fn exported(names: &[&str]) -> (StoreDir, String) {
    let store = StoreDir::new();
    for name in names {
        let file = store.dir.write("one.csv", format!("{name},https://example.org/\n"));
        store.import(&[&file], 0);
    }
    let log = String::from_utf8(store.run_ok(&["audit", "export"])).unwrap();
    assert_eq!(log.lines().count(), names.len() + 1, "{log}");
    (store, log)
}

#[test]
fn audit_chain_detects_any_change() {
    let (store, log) = exported(&["10.1000/1", "10.1000/2", "10.1000/3", "10.1000/4"]);
    let lines: Vec<&str> = log.lines().collect();
    let verify = |lines: &[&str], expected: Option<&str>| {
        let file = store.dir.write("audit.jsonl", lines.join("\n") + "\n");
        let (code, faults, messages) = store.dir.run(&["audit", "verify", &file]);
        match expected {
            None => assert_eq!((code, &*faults), (Some(0), ""), "{messages}"),
            Some(fault) => {
                assert_eq!(code, Some(1), "{faults}");
                assert!(faults.contains(fault), "{faults}");
            }
        }
    };
    verify(&lines, None);
    // A part of the log.
    verify(&lines[1..], None);
    verify(&[lines[0], lines[2], lines[3]], Some("log entry 2 missing, found 3"));
    verify(&[lines[0], lines[2], lines[1], lines[3]], Some("log entry 2 missing, found 3"));
    verify(&[lines[0], lines[0], lines[1]], Some("log entry 2 missing, found 1"));
    let edited = |member: &str, value: Json| {
        let mut line: Json = serde_json::from_str(lines[1]).unwrap();
        line[member] = value;
        line.to_string()
    };
    let digest = Some("log entry 2: content does not match its digest");
    verify(&[lines[0], &edited("author", json!("somebody")), lines[2]], digest);
    verify(&[lines[0], &edited("time_ms", json!(1)), lines[2]], digest);
    verify(&[lines[0], &edited("records", json!(7)), lines[2]], digest);
    let hash: Json = serde_json::from_str::<Json>(lines[2]).unwrap()["content_digest"].clone();
    verify(&[lines[0], &edited("content_digest", hash), lines[2]], Some("log entry 2: hash does not match"));
    // An entry of another log with the same number, complete in itself.
    let (other, other_log) = exported(&["10.1000/1", "10.1000/x", "10.1000/3", "10.1000/4"]);
    let foreign = other_log.lines().nth(1).unwrap();
    verify(&[lines[0], foreign, lines[2]], Some("previous hash does not match log entry"));

    // A log that was rewritten as a whole differs from the archive.
    let file = store.dir.write("audit.jsonl", &log);
    let compared = store.run(&["audit", "compare", &file]);
    assert_eq!(compared.status.code(), Some(0), "{}", stderr(&compared));
    let compared = other.run(&["audit", "compare", "--json", &file]);
    let result: Vec<Json> = compared
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(compared.status.code(), Some(1));
    assert_eq!(result[0]["fault"], "log entry 5 has another hash in the store");
    assert_eq!((&result[1]["entries"], &result[1]["faults"]), (&json!(5), &json!(1)));
    let (short, _) = exported(&["10.1000/1"]);
    let compared = short.run(&["audit", "compare", &file]);
    assert_eq!(String::from_utf8_lossy(&compared.stdout), "log entry 5 is not in the store\n");

    // Continued archives, and input that is no archive.
    let second = store.dir.file("second.jsonl");
    store.run_ok(&["audit", "export", "--after", "2", second.to_str().unwrap()]);
    let first = store.dir.write("first.jsonl", lines[..2].join("\n"));
    let (_, _, messages) = store.dir.run(&["audit", "verify", &first, second.to_str().unwrap()]);
    assert!(messages.starts_with("5 entries verified, 1 to 5, last hash "), "{messages}");
    let records = store.dir.write("records.jsonl", to_lines(&generate_records(1)));
    assert_eq!(store.dir.run(&["audit", "verify", &records]).0, Some(2));
    let empty = store.dir.write("empty.jsonl", "");
    assert_eq!(store.dir.run(&["audit", "verify", &empty]).0, Some(2));
}
