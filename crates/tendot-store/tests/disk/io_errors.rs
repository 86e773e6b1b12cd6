//! I/O errors at every write and sync: each is reported clearly, reads continue, and no acknowledged change is lost.

#![allow(unsafe_code, reason = "limits and the user of a child process are changed")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedImporter, EmbeddedStore, NameKey, Precondition, Store, StoreError,
    WriteFault, restore,
};
use tendot_testing::{MountedDisk, child_test, ram_dir, wait_until};

use crate::libc_shim::{DiskCall, RecordingGuard};
use crate::{serialize_tests, share_test_lock};

/// Error number, whether later calls fail, too, and the text in messages.
const INJECTED_ERRORS: [(i32, bool, &str); 4] = [
    (libc::ENOSPC, true, "No space left on device"),
    (libc::EIO, false, "Input/output error"),
    (libc::EIO, true, "Input/output error"),
    (libc::EROFS, true, "Read-only file system"),
];

/// More calls than any test makes.
const MAX_CALLS: u32 = 200;

fn put(number: usize, length: usize) -> ChangeSet {
    let values = vec![HandleValue::new(1, "URL", format!("{number}-{}", "x".repeat(length)))];
    let edit = |name: String| Edit::Put {
        name: name.into(),
        values: values.clone(),
        precondition: Precondition::Absent,
    };
    let edits = vec![edit(format!("10.1/name-{number}")), edit(format!("10.1/name-{number}-twin"))];
    ChangeSet { author: "tester".into(), timestamp_ms: number as u64, edits }
}

/// The numbers of the change sets in the store; asserts that each is stored completely.
fn committed_changes(store: &EmbeddedStore) -> Vec<usize> {
    let is_present = |name: String| block_on(store.get(&NameKey::new(&name).unwrap())).unwrap().is_some();
    let mut numbers = Vec::new();
    for number in 0..100 {
        let is_stored = is_present(format!("10.1/name-{number}"));
        assert_eq!(is_stored, is_present(format!("10.1/name-{number}-twin")), "{number}");
        if is_stored {
            numbers.push(number);
        }
    }
    assert_eq!(store.count().unwrap(), 2 * numbers.len() as u64);
    assert_eq!(block_on(store.read_log(0, 1_000)).unwrap().len(), 2 * numbers.len());
    numbers
}

/// Opens and verifies the store, and returns its change sets.
fn reopen_and_check(directory: &Path) -> Vec<usize> {
    let store = EmbeddedStore::open(directory).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    committed_changes(&store)
}

/// After a failed write of the meta page, LMDB writes it once more, with half of its earlier content: `verify` reports that until
/// the next commit.
fn repair_meta_page(directory: &Path) {
    let store = EmbeddedStore::open(directory).unwrap();
    for error in store.verify(|_| {}).unwrap().errors {
        assert_contains(&error, "the last commit may be missing");
    }
    block_on(store.commit(put(60, 10))).unwrap();
}

#[track_caller]
fn assert_contains(error: &str, expected: &str) {
    assert!(error.contains(expected), "`{error}` does not contain `{expected}`");
}

/// A change is stored if it was acknowledged, and may be stored after a restart if its outcome is unknown; never if it was refused.
#[test]
fn commits() {
    let _lock = share_test_lock();
    for injected in INJECTED_ERRORS {
        let mut failed_calls = BTreeMap::<_, Vec<u32>>::new();
        for call in 1..MAX_CALLS {
            let Some(failed) = commits_with_failure(call, injected, false) else {
                assert!(call > 5);
                break;
            };
            failed_calls.entry(format!("{failed:?}")).or_default().push(call);
        }
        assert_eq!(failed_calls.len(), 3, "writes, syncs and the last page: {failed_calls:?}");
        for call in &failed_calls["DurableWrite"] {
            assert_eq!(commits_with_failure(*call, injected, true), Some(DiskCall::DurableWrite));
        }
    }
}

/// Commits while a call fails; returns its kind.
fn commits_with_failure(
    call: u32,
    (error, is_persistent, expected): (i32, bool, &str),
    is_meta_written: bool,
) -> Option<DiskCall> {
    let root = ram_dir();
    let path = root.path().join("store");
    let store = EmbeddedStore::open(&path).unwrap();
    let mut acknowledged = Vec::new();
    for number in 0..3 {
        block_on(store.commit(put(number, 5_000))).unwrap();
        acknowledged.push(number);
    }
    let recording = RecordingGuard::start(root.path());
    if is_meta_written {
        recording.inject_after_meta_write(call, error, is_persistent);
    } else {
        recording.inject(call, error, is_persistent);
    }
    let mut rejected = Vec::new();
    for number in 3..5 {
        match block_on(store.commit(put(number, 5_000))) {
            Ok(_) => acknowledged.push(number),
            Err(failed) => rejected.push((number, failed)),
        }
        // Neither refused changes nor those that may not be durable.
        assert_eq!(committed_changes(&store), acknowledged, "{call}");
    }
    let Some(failed) = recording.clear() else {
        assert!(rejected.is_empty(), "{rejected:?}");
        return None;
    };
    assert!(!rejected.is_empty(), "{call}: {failed:?} failed without an error");
    assert_contains(&rejected[0].1.to_string(), expected);
    // Only after a failed write of the meta page is the durable state unknown.
    let is_in_doubt = |failed: &CommitError| matches!(failed, CommitError::Store(StoreError::InDoubt { .. }));
    let in_doubt: Vec<usize> =
        rejected.iter().filter(|(_, error)| is_in_doubt(error)).map(|(number, _)| *number).collect();
    let is_meta_failure = failed == DiskCall::DurableWrite;
    assert_eq!(in_doubt.len(), usize::from(is_meta_failure), "{call}, {failed:?}: {rejected:?}");
    // After a full disk commits succeed again, unless the state on disk is unknown.
    let continues = error == libc::ENOSPC && !is_meta_failure;
    match block_on(store.commit(put(50, 10))) {
        Ok(_) if continues => acknowledged.push(50),
        Err(CommitError::Store(StoreError::ReadOnly { reason })) if !continues => {
            assert_contains(&reason, "an earlier commit failed");
            assert_contains(&reason, expected);
        }
        other => panic!("{call}, {failed:?}: {other:?}"),
    }
    assert!(store.verify(|_| {}).is_ok() && store.backup(&mut tempfile::tempfile().unwrap()).is_ok());
    let last = rejected.last().unwrap().1.to_string();
    assert!(continues || rejected.len() == 1 || last.starts_with("store is read-only: "), "{last}");
    drop((store, recording));
    if is_meta_failure {
        repair_meta_page(&path);
        acknowledged.push(60);
    }
    let stored = reopen_and_check(&path);
    if is_meta_failure && is_meta_written && is_persistent {
        // The page was written, and could not be taken back.
        acknowledged.push(in_doubt[0]);
        acknowledged.sort_unstable();
    }
    assert_eq!(stored, acknowledged, "{call}, {failed:?}");
    block_on(EmbeddedStore::open(&path).unwrap().commit(put(61, 10))).unwrap();
    Some(failed)
}

/// After a failed write or sync, the store is written again by itself, without a request.
#[test]
fn writes_recover_by_themselves() {
    let _lock = share_test_lock();
    let mut recovered = Vec::new();
    for call in 1..MAX_CALLS {
        let root = ram_dir();
        let path = root.path().join("store");
        let store = EmbeddedStore::open(&path).unwrap();
        let status = store.write_status_handle();
        let recording = RecordingGuard::start(root.path());
        recording.inject(call, libc::EIO, true);
        let committed = block_on(store.commit(put(1, 5_000)));
        let fault = status().fault;
        let Some(failed) = recording.clear() else { break };
        committed.unwrap_err();
        if failed == DiskCall::DurableWrite {
            // LMDB has failed, which only a restart repairs.
            assert_eq!(fault, Some(WriteFault::EngineFailed));
        } else if !recovered.contains(&failed) {
            assert_eq!(fault, Some(WriteFault::CommitFailed), "{failed:?}");
            wait_until("the store is writable again", || status().fault.is_none());
            block_on(store.commit(put(2, 5_000))).unwrap();
            drop((store, recording));
            assert_eq!(reopen_and_check(&path), [2], "{failed:?}");
            recovered.push(failed);
        }
    }
    assert_eq!(recovered, [DiskCall::Write, DiskCall::Sync]);
}

/// Readers are not affected by write errors.
#[test]
fn readers_during_write_errors() {
    let _lock = share_test_lock();
    for call in 1..MAX_CALLS {
        let root = ram_dir();
        let store = EmbeddedStore::open(&root.path().join("store")).unwrap();
        block_on(store.commit(put(1, 10))).unwrap();
        let recording = RecordingGuard::start(root.path());
        recording.inject(call, libc::EIO, false);
        let (is_finished, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let readers = [(); 4].map(|()| {
                scope.spawn(|| {
                    while !is_finished.load(Ordering::SeqCst) {
                        let key = NameKey::new("10.1/name-1").unwrap();
                        assert!(block_on(store.get(&key)).unwrap().is_some());
                        assert!(!block_on(store.list_names(b"10.1", None, 9)).unwrap().is_empty());
                        reads.fetch_add(1, Ordering::SeqCst);
                    }
                })
            });
            let _ = block_on(store.commit(put(2, 10)));
            let before = reads.load(Ordering::SeqCst);
            wait_until("reads continue", || reads.load(Ordering::SeqCst) >= before + 20);
            is_finished.store(true, Ordering::SeqCst);
            // A scope does not wait for thread-local destructors: see `EmbeddedStore`.
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        if recording.clear().is_none() {
            assert!(call > 3);
            break;
        }
    }
}

#[test]
fn creation() {
    let _lock = share_test_lock();
    for (error, is_persistent, expected) in INJECTED_ERRORS {
        for call in 1..MAX_CALLS {
            let root = ram_dir();
            let path = root.path().join("data/store");
            let recording = RecordingGuard::start(root.path());
            recording.inject(call, error, is_persistent);
            let opened = EmbeddedStore::open(&path);
            let failed = recording.clear();
            match opened {
                Ok(_) => {
                    assert!(failed.is_none(), "{call}: {failed:?}");
                    assert!(call > 5);
                    break;
                }
                Err(error) => {
                    assert_contains(&error.to_string(), expected);
                    assert_contains(&error.to_string(), "store");
                }
            }
            drop(recording);
            block_on(EmbeddedStore::open(&path).unwrap().commit(put(1, 1))).unwrap();
            assert_eq!(reopen_and_check(&path), [1], "{call}");
        }
    }
}

#[test]
fn imports() {
    let _lock = share_test_lock();
    let import = |directory: &Path| -> Result<(), Box<dyn std::error::Error>> {
        let mut importer =
            EmbeddedImporter::open(directory, "importer", 1)?.records_per_transaction(10).buffer_bytes(2_000);
        for number in 0..35 {
            importer.add(format!("10.2/{number}").into(), &[HandleValue::new(1, "URL", "x".repeat(200))])?;
        }
        Ok(importer.finish(|_| {}).map(|_| ())?)
    };
    for (error, is_persistent, expected) in INJECTED_ERRORS {
        for call in 1..MAX_CALLS {
            let root = ram_dir();
            let path = root.path().join("store");
            block_on(EmbeddedStore::open(&path).unwrap().commit(put(1, 10))).unwrap();
            let recording = RecordingGuard::start(root.path());
            recording.inject(call, error, is_persistent);
            let result = import(&path);
            let failed = recording.clear();
            drop(recording);
            if failed.is_none() {
                assert!(call > 5);
                break;
            }
            assert_contains(&result.unwrap_err().to_string(), expected);
            if failed == Some(DiskCall::DurableWrite) {
                repair_meta_page(&path);
            }
            let store = EmbeddedStore::open(&path).unwrap();
            assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
            assert!(block_on(store.get(&NameKey::new("10.1/name-1").unwrap())).unwrap().is_some());
            drop(store);
            import(&path).unwrap();
            let extra = if failed == Some(DiskCall::DurableWrite) { 2 } else { 0 };
            assert_eq!(EmbeddedStore::open(&path).unwrap().count().unwrap(), 37 + extra);
        }
    }
}

#[test]
fn backups_and_restores() {
    let _lock = share_test_lock();
    for (error, is_persistent, expected) in INJECTED_ERRORS {
        for call in 1..MAX_CALLS {
            let root = ram_dir();
            let (path, file) = (root.path().join("store"), root.path().join("backup"));
            let other = root.path().join("other");
            let store = EmbeddedStore::open(&path).unwrap();
            block_on(store.commit(put(1, 10))).unwrap();
            block_on(EmbeddedStore::open(&other).unwrap().commit(put(2, 10))).unwrap();
            let mut valid_backup = tempfile::tempfile().unwrap();
            store.backup(&mut valid_backup).unwrap();
            let recording = RecordingGuard::start(root.path());
            recording.inject(call, error, is_persistent);
            let open = || File::options().read(true).write(true).create_new(true).open(&file).unwrap();
            let backup = store.backup(&mut open());
            let during_backup = recording.clear().is_some();
            recording.inject(call, error, is_persistent);
            let restored = restore(&mut valid_backup, &other, true);
            let during_restore = recording.clear().is_some();
            drop(recording);
            assert_eq!(backup.is_err(), during_backup, "{call}");
            if let Err(error) = backup {
                assert_contains(&error.to_string(), expected);
            }
            assert_eq!(restored.is_err(), during_restore, "{call}");
            match restored {
                Ok(_) => assert_eq!(reopen_and_check(&other), [1]),
                Err(error) => {
                    assert_contains(&error.to_string(), expected);
                    let found = reopen_and_check(&other);
                    assert!(found == [1] || found == [2], "{call}: {found:?}");
                    restore(&mut valid_backup, &other, true).unwrap();
                    assert_eq!(reopen_and_check(&other), [1]);
                }
            }
            if !during_backup && !during_restore {
                assert!(call > 5);
                break;
            }
        }
    }
}

/// Set in child processes: a directory of limited size, or without permission.
const DIRECTORY_VAR: &str = "TENDOT_TEST_FAULT_DIRECTORY";

fn run(child: &str, directory: &Path) {
    let output = child_test(child).env(DIRECTORY_VAR, directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn child_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY_VAR).map(PathBuf::from)
}

/// Commits until the disk is full; returns the acknowledged change sets.
fn fill_disk(store: &EmbeddedStore) -> Vec<usize> {
    let mut acknowledged = committed_changes(store);
    let error = loop {
        let number = acknowledged.len();
        assert!(number < 90, "the disk does not become full");
        match block_on(store.commit(put(number, 7_000))) {
            Ok(_) => acknowledged.push(number),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("No space left on device") || error.contains("File too large"), "{error}");
    assert_eq!(committed_changes(store), acknowledged, "reads continue");
    acknowledged
}

/// A full file system: tmpfs cuts writes short, as others do.
#[test]
fn disk_full() {
    let _lock = serialize_tests();
    // Sizes that end in the middle of a transaction, so that some writes are cut short.
    for size in [300, 332, 376, 408] {
        let full = MountedDisk::tmpfs(&format!("size={size}k"));
        let path = full.path().join("store");
        let store = EmbeddedStore::open(&path).unwrap();
        let acknowledged = fill_disk(&store);
        let mut backup =
            File::options().read(true).write(true).create_new(true).open(full.path().join("backup")).unwrap();
        assert_contains(&store.backup(&mut backup).unwrap_err().to_string(), "No space left on device");
        drop(backup);
        std::fs::remove_file(full.path().join("backup")).unwrap();
        full.remount("size=8m");
        block_on(store.commit(put(95, 7_000))).unwrap();
        drop(store);
        let found = reopen_and_check(&path);
        assert_eq!(found, [&acknowledged[..], &[95]].concat());

        full.remount("size=500k");
        let mut importer = EmbeddedImporter::open(&path, "importer", 1)
            .unwrap()
            .records_per_transaction(10)
            .buffer_bytes(100_000);
        let imported = (0..500).try_for_each(|number| {
            importer.add(format!("10.2/{number}").into(), &[HandleValue::new(1, "URL", "x".repeat(2_000))])
        });
        let imported = imported.and_then(|()| importer.finish(|_| {}).map(|_| ()));
        assert_contains(&imported.unwrap_err().to_string(), "No space left on device");
        full.remount("size=20m");
        let store = EmbeddedStore::open(&path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        for number in found {
            let key = NameKey::new(&format!("10.1/name-{number}")).unwrap();
            assert!(block_on(store.get(&key)).unwrap().is_some());
        }
    }
}

/// A full disk, on which LMDB reports a short write as EIO although some blocks are free: large changes are refused, small ones that
/// fit are committed, and all are when there is space again.
fn check_full_disk(disk: &MountedDisk) {
    let _lock = serialize_tests();
    let path = disk.path().join("store");
    let is_disk_full = |error: &CommitError| matches!(error, CommitError::Store(StoreError::DiskFull { .. }));
    for round in 0..6 {
        let store = EmbeddedStore::open(&path).unwrap();
        disk.fill_to((10 << 20) - round * 73_000);
        let (mut acknowledged, mut refused) = (Vec::new(), None);
        while refused.is_none() {
            assert!(acknowledged.len() < 60, "the disk does not become full");
            // Some hundred pages.
            match block_on(store.commit(put(acknowledged.len(), 700_000 + round as usize * 4_096))) {
                Ok(_) => acknowledged.push(acknowledged.len()),
                Err(error) => refused = Some(error),
            }
        }
        assert!(refused.as_ref().is_some_and(is_disk_full), "{refused:?}");
        assert_eq!(committed_changes(&store), acknowledged);
        disk.remove_filler();
        wait_until("there is space again", || match block_on(store.commit(put(95, 700_000))) {
            Ok(_) => true,
            // XFS frees the space of a removed file later.
            Err(error) => {
                assert!(is_disk_full(&error), "{error}");
                false
            }
        });
        drop(store);
        assert_eq!(reopen_and_check(&path), [&acknowledged[..], &[95]].concat());
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn ext4_disk_full() {
    check_full_disk(&MountedDisk::ext4(24 << 20));
}

#[test]
fn xfs_disk_full() {
    check_full_disk(&MountedDisk::xfs());
}

/// A thin-provisioned disk: the sync fails, which the system reports again to the next write of a meta page.
#[test]
fn overcommitted_disk_full() {
    let _lock = serialize_tests();
    let backing = MountedDisk::tmpfs("size=30m");
    let disk = MountedDisk::ext4_on(&backing, 24 << 20);
    let path = disk.path().join("store");
    let store = EmbeddedStore::open(&path).unwrap();
    block_on(store.commit(put(0, 700_000))).unwrap();
    backing.fill_to(64 << 10);
    let refused = block_on(store.commit(put(1, 2_000_000))).unwrap_err();
    assert!(matches!(refused, CommitError::Store(StoreError::DiskFull { .. })), "{refused}");
    backing.remove_filler();
    block_on(store.commit(put(2, 2_000_000))).unwrap();
    assert_eq!(committed_changes(&store), [0, 2]);
    drop(store);
    assert_eq!(reopen_and_check(&path), [0, 2]);
}

/// A restore to a full disk says so.
#[test]
fn restore_to_a_full_disk() {
    let _lock = serialize_tests();
    let root = ram_dir();
    let store = EmbeddedStore::open(root.path()).unwrap();
    block_on(store.commit(put(1, 500_000))).unwrap();
    let mut backup = tempfile::tempfile().unwrap();
    store.backup(&mut backup).unwrap();
    let full = MountedDisk::tmpfs("size=400k");
    let error = restore(&mut backup, &full.path().join("store"), false).unwrap_err().to_string();
    assert!(error.contains("No space left on device") && !error.contains("backup"), "{error}");
}

/// A file size limit, in a child process that ignores the signal and gets an error.
#[test]
fn file_size_limit() {
    let _lock = serialize_tests();
    let root = ram_dir();
    run("io_errors::child_with_file_size_limit", &root.path().join("store"));
}

/// Child process: fills a store up to the limit.
#[test]
fn child_with_file_size_limit() {
    let Some(path) = child_directory() else { return };
    for limit in [200_000, 214_000, 262_144] {
        let path = path.join(limit.to_string());
        let set_limit = |limit: u64| {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: sets a limit of this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        };
        // SAFETY: ignores a signal.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let store = EmbeddedStore::open(&path).unwrap();
        set_limit(limit);
        let acknowledged = fill_disk(&store);
        set_limit(libc::RLIM_INFINITY);
        block_on(store.commit(put(95, 7_000))).unwrap();
        drop(store);
        assert_eq!(reopen_and_check(&path), [&acknowledged[..], &[95]].concat());
    }
}

/// A read-only file system.
#[test]
fn read_only_file_system() {
    let _lock = serialize_tests();
    let disk = MountedDisk::tmpfs("size=8m");
    let path = disk.path().join("store");
    let store = EmbeddedStore::open(&path).unwrap();
    block_on(store.commit(put(1, 10))).unwrap();
    drop(store);
    disk.remount("ro");
    let expected = "Read-only file system";
    assert_contains(&EmbeddedStore::open(&path).unwrap_err().to_string(), expected);
    assert_contains(&EmbeddedStore::open(&disk.path().join("new")).unwrap_err().to_string(), expected);
    assert_contains(&EmbeddedImporter::open(&path, "importer", 1).unwrap_err().to_string(), expected);
    let reader = EmbeddedStore::open_read_only(&path);
    // LMDB reads without a reader table where it cannot create one.
    assert_eq!(committed_changes(&reader.unwrap()), [1]);
    disk.remount("rw");
    assert_eq!(reopen_and_check(&path), [1]);
}

/// A directory of another user.
#[test]
fn read_only_directory() {
    let _lock = serialize_tests();
    let root = ram_dir();
    let path = root.path().join("store");
    std::fs::create_dir(&path).unwrap();
    for directory in [root.path(), &path] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    run("io_errors::child_without_permission", &path);
}

/// Child process: runs as the user `nobody` if this is root.
#[test]
fn child_without_permission() {
    let Some(path) = child_directory() else { return };
    // SAFETY: gives up the privileges of this process.
    unsafe { libc::setuid(65_534) };
    assert_contains(&EmbeddedStore::open(&path).unwrap_err().to_string(), "Permission denied");
    assert_contains(
        &EmbeddedImporter::open(&path.join("new"), "x", 1).unwrap_err().to_string(),
        "Permission denied",
    );
}
