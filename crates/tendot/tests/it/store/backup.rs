//! Backups restore the same store, damaged ones are refused, and neither backup nor export overwrites the store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use tendot_store::EmbeddedStore;

use super::{StoreDir, generate_records, to_lines};
use crate::support::{run_by, stderr};

#[test]
fn backups_are_restored() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(2_000)));
    store.import(&[&file], 0);
    let exported = store.run_ok(&["export"]);
    let backup = store.dir.file("backup");
    let backup = backup.to_str().unwrap();
    let summary: Json = serde_json::from_slice(&store.run_ok(&["backup", "--json", backup])).unwrap();
    assert_eq!(summary["bytes"], json!(fs::metadata(backup).unwrap().len()));

    // Both the backup and the restored store contain secrets.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(backup)), 0o600);

    let refused = store.run(&["restore", backup]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("hint: use `--force` to move"), "{}", stderr(&refused));
    let unconfirmed = store.run(&["restore", "--force", backup]);
    assert_eq!(unconfirmed.status.code(), Some(2));
    assert!(
        stderr(&unconfirmed).contains("error: confirmation required: the store in"),
        "{}",
        stderr(&unconfirmed)
    );
    let tried = store.run(&["restore", "--force", "--dry-run", backup]);
    assert_eq!(tried.status.code(), Some(0), "{}", stderr(&tried));
    assert!(stderr(&tried).ends_with("old-N`; dry run, nothing was written\n"), "{}", stderr(&tried));
    assert!(fs::read_dir(store.dir.file("data")).unwrap().all(|entry| entry.unwrap().file_name() != "old-1"));
    let more = store.dir.write("more.jsonl", "{\"handle\":\"10.1000/more\",\"values\":[]}");
    store.import(&[&more], 0);
    let summary: Json =
        serde_json::from_slice(&store.run_ok(&["restore", "--force", "--yes", "--json", backup])).unwrap();
    assert!(store.run_ok(&["export"]) == exported);
    store.run_ok(&["verify"]);
    assert_eq!(mode(&store.dir.file("data/data.mdb")), 0o600);
    // The former store was moved aside, and the restored one can be written.
    let aside = EmbeddedStore::open_read_only(Path::new(summary["moved_to"].as_str().unwrap())).unwrap();
    assert_eq!(aside.count().unwrap(), 2_001);
    assert_eq!(store.import(&[&more], 0)["created"], json!(1));

    let other_store = StoreDir::new();
    other_store.run_ok(&["restore", backup]);
    assert!(other_store.run_ok(&["export"]) == exported);

    // A damaged backup is not restored.
    let good = fs::read(backup).unwrap();
    for (damaged, reason) in [
        (good[..good.len() - 1].to_vec(), "bytes, found"),
        ([&good[..], b"x"].concat(), "bytes, found"),
        (
            good.iter().enumerate().map(|(at, byte)| if at == 9_999 { byte ^ 1 } else { *byte }).collect(),
            "checksum",
        ),
        (b"tendot backup 2\n".to_vec(), "not a tendot backup"),
        (Vec::new(), "not a tendot backup"),
    ] {
        let damaged = other_store.dir.write("damaged", damaged);
        let output = other_store.run(&["restore", "--force", "--yes", &damaged]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        assert!(other_store.run_ok(&["export"]) == exported);
    }
}

/// A backup that is killed while it writes leaves the earlier one. Run again, it is complete, and removes what was left.
#[test]
fn killed_backups_are_run_again() {
    const KILLED_AT_BYTES: u64 = 64 << 10;
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(2_000)));
    store.import(&[&file], 0);
    let target = store.dir.path().join("copies");
    fs::create_dir(&target).unwrap();
    let backup = target.join("backup");
    let arguments = ["backup", backup.to_str().unwrap()];
    store.run_ok(&arguments);
    let earlier = fs::read(&backup).unwrap();
    assert!(earlier.len() as u64 > 2 * KILLED_AT_BYTES);
    store.import(&[&store.dir.write("more.jsonl", "{\"handle\":\"10.1000/more\",\"values\":[]}")], 0);
    let exported = store.run_ok(&["export"]);

    // The limit of file sizes ends the process by a signal, in the middle of a write.
    let limit = ["prlimit", &format!("--fsize={KILLED_AT_BYTES}"), "--core=0"];
    let output = run_by(&limit, &store.command(&arguments)).output().unwrap();
    assert!(output.status.signal().is_some(), "{}", stderr(&output));
    assert!(fs::read(&backup).unwrap() == earlier);
    let files = || -> Vec<_> { fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let left: Vec<_> = files().into_iter().filter(|file| *file != backup).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].metadata().unwrap().len(), KILLED_AT_BYTES);
    // Newer ones may belong to another backup.
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    fs::File::options().write(true).open(&left[0]).unwrap().set_modified(hour_ago).unwrap();

    store.run_ok(&arguments);
    assert_eq!(files(), std::slice::from_ref(&backup));
    let restored = StoreDir::new();
    restored.run_ok(&["restore", backup.to_str().unwrap()]);
    assert!(restored.run_ok(&["export"]) == exported);
}

#[test]
fn refuses_to_overwrite_store_files() {
    let store = StoreDir::new();
    let records = store.dir.write("one.csv", "10.1000/1,https://example.org/\n");
    store.import(&[&records], 0);
    fs::create_dir(store.dir.file("other")).unwrap();
    std::os::unix::fs::symlink(store.dir.file("data/data.mdb"), store.dir.file("link")).unwrap();
    for command in ["backup", "export"] {
        for target in ["data/data.mdb", "data/lock.mdb", "other/../data/tendot.lock", "link"] {
            let output = store.run(&[command, store.dir.file(target).to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{command} {target}");
            assert!(stderr(&output).contains("belongs to the store"), "{}", stderr(&output));
        }
        store.run_ok(&[command, store.dir.file("data/a-copy").to_str().unwrap()]);
    }
    assert_eq!(store.run(&["backup", "-"]).status.code(), Some(2));
    assert_eq!(store.export().len(), 1);
}

#[test]
fn backups_of_other_versions() {
    let store = StoreDir::new();
    let newer = store.dir.write("newer", "tendot backup 2\nwhatever comes then");
    let output = store.run(&["restore", &newer]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("hint: it was written by a newer version of tendot"),
        "{}",
        stderr(&output)
    );
    let other = store.dir.write("other", "something else altogether");
    assert!(stderr(&store.run(&["restore", &other])).contains("not a tendot backup"));
}
