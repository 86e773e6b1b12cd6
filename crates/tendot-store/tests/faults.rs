//! The disk fails, at each write and at each sync in turn: a clear error, reading goes on, nothing that was acknowledged
//! is lost, and nothing is acknowledged that is not there.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "file systems are mounted and limits are set")]

mod disk;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use disk::{Call, Watching};
use pollster::block_on;
use tempfile::TempDir;
use tendot_proto::Value;
use tendot_store::{Change, CommitError, Edit, Embedded, Expect, Importer, Key, Store, StoreError, restore};

/// What the system says, whether it stays so, and how it is told.
const FAULTS: [(i32, bool, &str); 4] = [
    (libc::ENOSPC, true, "No space left on device"),
    (libc::EIO, false, "Input/output error"),
    (libc::EIO, true, "Input/output error"),
    (libc::EROFS, true, "Read-only file system"),
];

/// More calls than any of what is done here makes.
const CALLS: u32 = 200;

/// One test at a time: a process that another test starts has our locks until it is on its own.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn put(number: usize, length: usize) -> Change {
    let values = vec![Value::new(1, "URL", format!("{number}-{}", "x".repeat(length)))];
    let edit = |name: String| Edit::Put { name: name.into(), values: values.clone(), expect: Expect::Absent };
    let edits = vec![edit(format!("10.1/name-{number}")), edit(format!("10.1/name-{number}-twin"))];
    Change { by: "somebody".into(), at: number as u64, edits }
}

/// Which changes are there; each is there whole.
fn there(store: &Embedded) -> Vec<usize> {
    let has = |name: String| block_on(store.get(&Key::new(&name).unwrap())).unwrap().is_some();
    let mut numbers = Vec::new();
    for number in 0..100 {
        let is_there = has(format!("10.1/name-{number}"));
        assert_eq!(is_there, has(format!("10.1/name-{number}-twin")), "{number}");
        if is_there {
            numbers.push(number);
        }
    }
    assert_eq!(store.count().unwrap(), 2 * numbers.len() as u64);
    assert_eq!(block_on(store.changes(0, 1_000)).unwrap().len(), 2 * numbers.len());
    numbers
}

/// As `there`, of a store that is opened for it.
fn opened(directory: &Path) -> Vec<usize> {
    let store = Embedded::open(directory).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
    there(&store)
}

/// The page that tells the last state was not written as it should have been, and the engine wrote it again, half of it as
/// it was before: that is told until it is written the next time.
fn settle(directory: &Path) {
    let store = Embedded::open(directory).unwrap();
    for damage in store.verify(|_| {}).unwrap().damage {
        assert_told(&damage, "the last change may be missing");
    }
    block_on(store.commit(put(60, 10))).unwrap();
}

#[track_caller]
fn assert_told(error: &str, told: &str) {
    assert!(error.contains(told), "`{error}` does not tell `{told}`");
}

#[test]
fn commits() {
    let _alone = alone();
    for (error, stays, told) in FAULTS {
        let mut failed_calls = BTreeMap::new();
        for call in 1..CALLS {
            let root = memory();
            let path = root.path().join("store");
            let store = Embedded::open(&path).unwrap();
            let mut acknowledged = Vec::new();
            for number in 0..3 {
                block_on(store.commit(put(number, 5_000))).unwrap();
                acknowledged.push(number);
            }
            let watching = Watching::begin(root.path());
            watching.fail(call, error, stays);
            let mut refused = Vec::new();
            for number in 3..7 {
                match block_on(store.commit(put(number, 5_000))) {
                    Ok(_) => acknowledged.push(number),
                    Err(failed) => {
                        if refused.is_empty() {
                            assert_told(&failed.to_string(), told);
                        }
                        refused.push((number, failed.to_string()));
                    }
                }
                let found = there(&store);
                let known = |number: &usize| {
                    acknowledged.contains(number) || refused.iter().any(|(refused, _)| refused == number)
                };
                assert!(acknowledged.iter().all(|number| found.contains(number)), "{call}: reading goes on");
                assert!(found.iter().all(known), "{call}: {found:?}");
            }
            let Some(failed) = watching.lift() else {
                assert!(refused.is_empty() && call > 5);
                break;
            };
            *failed_calls.entry(format!("{failed:?}")).or_insert(0) += 1;
            assert!(!refused.is_empty(), "{call}: {failed:?} failed, and nobody was told");
            // When there is room again it goes on, unless nobody knows what is on the disk.
            let goes_on = error == libc::ENOSPC && failed != Call::DurableWrite;
            match block_on(store.commit(put(50, 10))) {
                Ok(_) if goes_on => acknowledged.push(50),
                Err(CommitError::Store(StoreError::ReadOnly { why })) if !goes_on => {
                    assert_told(&why, "an earlier change could not be made durable");
                    assert_told(&why, told);
                }
                other => panic!("{call}, {failed:?}: {other:?}"),
            }
            assert!(store.verify(|_| {}).is_ok() && store.backup(&mut tempfile::tempfile().unwrap()).is_ok());
            let (_, last) = refused.last().unwrap();
            assert!(
                goes_on || refused.len() == 1 || last.starts_with("the store can only be read: "),
                "{last}"
            );
            drop((store, watching));
            if failed == Call::DurableWrite {
                settle(&path);
            }
            let found = opened(&path);
            assert!(acknowledged.iter().all(|number| found.contains(number)), "{call}: {found:?}");
            block_on(Embedded::open(&path).unwrap().commit(put(61, 10))).unwrap();
        }
        assert_eq!(failed_calls.len(), 3, "writes, syncs and the last page: {failed_calls:?}");
    }
}

/// Who reads while the page fails that tells the last state notices nothing.
#[test]
fn readers_meanwhile() {
    let _alone = alone();
    for call in 1..CALLS {
        let root = memory();
        let store = Embedded::open(&root.path().join("store")).unwrap();
        block_on(store.commit(put(1, 10))).unwrap();
        let watching = Watching::begin(root.path());
        watching.fail(call, libc::EIO, false);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let key = Key::new("10.1/name-1").unwrap();
                        assert!(block_on(store.get(&key)).unwrap().is_some());
                        assert!(!block_on(store.list(b"10.1", None, 9)).unwrap().is_empty());
                    }
                });
            }
            let _ = block_on(store.commit(put(2, 10)));
            std::thread::sleep(Duration::from_millis(5));
            is_over.store(true, Ordering::SeqCst);
        });
        if watching.lift().is_none() {
            assert!(call > 3);
            break;
        }
    }
}

#[test]
fn creation() {
    let _alone = alone();
    for (error, stays, told) in FAULTS {
        for call in 1..CALLS {
            let root = memory();
            let path = root.path().join("data/store");
            let watching = Watching::begin(root.path());
            watching.fail(call, error, stays);
            let made = Embedded::open(&path);
            let failed = watching.lift();
            match made {
                Ok(_) => {
                    assert!(failed.is_none(), "{call}: {failed:?}");
                    assert!(call > 5);
                    break;
                }
                Err(error) => {
                    assert_told(&error.to_string(), told);
                    assert_told(&error.to_string(), "store");
                }
            }
            drop(watching);
            block_on(Embedded::open(&path).unwrap().commit(put(1, 1))).unwrap();
            assert_eq!(opened(&path), [1], "{call}");
        }
    }
}

#[test]
fn imports() {
    let _alone = alone();
    let import = |directory: &Path| -> Result<(), Box<dyn std::error::Error>> {
        let mut importer = Importer::open(directory, "importer", 1)?.together(10).buffer(2_000);
        for number in 0..35 {
            importer.put(format!("10.2/{number}").into(), &[Value::new(1, "URL", "x".repeat(200))])?;
        }
        Ok(importer.finish(|_| {}).map(|_| ())?)
    };
    for (error, stays, told) in FAULTS {
        for call in 1..CALLS {
            let root = memory();
            let path = root.path().join("store");
            block_on(Embedded::open(&path).unwrap().commit(put(1, 10))).unwrap();
            let watching = Watching::begin(root.path());
            watching.fail(call, error, stays);
            let done = import(&path);
            let failed = watching.lift();
            drop(watching);
            if failed.is_none() {
                assert!(call > 5);
                break;
            }
            assert_told(&done.unwrap_err().to_string(), told);
            if failed == Some(Call::DurableWrite) {
                settle(&path);
            }
            let store = Embedded::open(&path).unwrap();
            assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
            assert!(block_on(store.get(&Key::new("10.1/name-1").unwrap())).unwrap().is_some());
            drop(store);
            import(&path).unwrap();
            let settled = if failed == Some(Call::DurableWrite) { 2 } else { 0 };
            assert_eq!(Embedded::open(&path).unwrap().count().unwrap(), 37 + settled);
        }
    }
}

#[test]
fn backups_and_restores() {
    let _alone = alone();
    for (error, stays, told) in FAULTS {
        for call in 1..CALLS {
            let root = memory();
            let (path, file) = (root.path().join("store"), root.path().join("backup"));
            let other = root.path().join("other");
            let store = Embedded::open(&path).unwrap();
            block_on(store.commit(put(1, 10))).unwrap();
            block_on(Embedded::open(&other).unwrap().commit(put(2, 10))).unwrap();
            let mut good = tempfile::tempfile().unwrap();
            store.backup(&mut good).unwrap();
            let watching = Watching::begin(root.path());
            watching.fail(call, error, stays);
            let open = || File::options().read(true).write(true).create_new(true).open(&file).unwrap();
            let backup = store.backup(&mut open());
            let during_backup = watching.lift().is_some();
            watching.fail(call, error, stays);
            let restored = restore(&mut good, &other, true);
            let during_restore = watching.lift().is_some();
            drop(watching);
            assert_eq!(backup.is_err(), during_backup, "{call}");
            if let Err(error) = backup {
                assert_told(&error.to_string(), told);
            }
            assert_eq!(restored.is_err(), during_restore, "{call}");
            match restored {
                Ok(_) => assert_eq!(opened(&other), [1]),
                Err(error) => {
                    assert_told(&error.to_string(), told);
                    let found = opened(&other);
                    assert!(found == [1] || found == [2], "{call}: {found:?}");
                    restore(&mut good, &other, true).unwrap();
                    assert_eq!(opened(&other), [1]);
                }
            }
            if !during_backup && !during_restore {
                assert!(call > 5);
                break;
            }
        }
    }
}

/// Set in the process that does what is asked, in a directory that has no room or cannot be written.
const PLACE: &str = "TENDOT_FAULT_PLACE";

fn run(child: &str, place: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", child, "--nocapture"]).env(PLACE, place);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

/// A file system in memory, of this size; none where we may not mount one.
struct Mounted(TempDir);

impl Mounted {
    fn new(options: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(directory.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(directory))
    }

    fn again(&self, options: &str) {
        let status = Command::new("mount").args(["-o", options]).arg(self.0.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Writes until there is no room, in a store of its own, and tells what is there.
fn fill(store: &Embedded) -> Vec<usize> {
    let mut acknowledged = there(store);
    let error = loop {
        let number = acknowledged.len();
        assert!(number < 90, "there is always room");
        match block_on(store.commit(put(number, 7_000))) {
            Ok(_) => acknowledged.push(number),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("No space left on device") || error.contains("File too large"), "{error}");
    assert_eq!(there(store), acknowledged, "reading goes on");
    acknowledged
}

/// A disk that is really full: tmpfs cuts writes short, as other file systems do.
#[test]
fn a_full_disk() {
    let _alone = alone();
    // Sizes that end in the middle of what a transaction writes, so that some are cut short.
    for size in [300, 332, 376, 408] {
        let Some(full) = Mounted::new(&format!("size={size}k")) else { return };
        let path = full.0.path().join("store");
        let store = Embedded::open(&path).unwrap();
        let acknowledged = fill(&store);
        let mut backup = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(full.0.path().join("backup"))
            .unwrap();
        assert_told(&store.backup(&mut backup).unwrap_err().to_string(), "No space left on device");
        drop(backup);
        std::fs::remove_file(full.0.path().join("backup")).unwrap();
        full.again("remount,size=8m");
        block_on(store.commit(put(95, 7_000))).unwrap();
        drop(store);
        let found = opened(&path);
        assert_eq!(found, [&acknowledged[..], &[95]].concat());

        full.again("remount,size=500k");
        let mut importer = Importer::open(&path, "importer", 1).unwrap().together(10).buffer(100_000);
        let imported = (0..500).try_for_each(|number| {
            importer.put(format!("10.2/{number}").into(), &[Value::new(1, "URL", "x".repeat(2_000))])
        });
        let imported = imported.and_then(|()| importer.finish(|_| {}).map(|_| ()));
        assert_told(&imported.unwrap_err().to_string(), "No space left on device");
        full.again("remount,size=20m");
        let store = Embedded::open(&path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
        for number in found {
            let key = Key::new(&format!("10.1/name-{number}")).unwrap();
            assert!(block_on(store.get(&key)).unwrap().is_some());
        }
    }
}

/// The same with a limit for the size of files, which needs no rights; another process has it, and is told by an error
/// instead of a signal.
#[test]
fn a_limit_for_files() {
    let _alone = alone();
    let root = memory();
    run("within_a_limit", &root.path().join("store"));
}

/// Not a test by itself.
#[test]
fn within_a_limit() {
    let Some(path) = place() else { return };
    for limit in [200_000, 214_000, 262_144] {
        let path = path.join(limit.to_string());
        let set = |limit: u64| {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: changes a limit of this process, and what becomes of a signal.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        };
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let store = Embedded::open(&path).unwrap();
        set(limit);
        let acknowledged = fill(&store);
        set(libc::RLIM_INFINITY);
        block_on(store.commit(put(95, 7_000))).unwrap();
        drop(store);
        assert_eq!(opened(&path), [&acknowledged[..], &[95]].concat());
    }
}

/// A file system that cannot be written, from the beginning or since the store was opened.
#[test]
fn a_read_only_file_system() {
    let _alone = alone();
    let Some(disk) = Mounted::new("size=8m") else { return };
    let path = disk.0.path().join("store");
    let store = Embedded::open(&path).unwrap();
    block_on(store.commit(put(1, 10))).unwrap();
    drop(store);
    disk.again("remount,ro");
    let told = "Read-only file system";
    assert_told(&Embedded::open(&path).unwrap_err().to_string(), told);
    assert_told(&Embedded::open(&disk.0.path().join("new")).unwrap_err().to_string(), told);
    assert_told(&Importer::open(&path, "importer", 1).unwrap_err().to_string(), told);
    let reader = Embedded::open_read_only(&path);
    // LMDB reads without a place for readers where it cannot make one.
    assert_eq!(there(&reader.unwrap()), [1]);
    disk.again("remount,rw");
    assert_eq!(opened(&path), [1]);
}

/// A directory that belongs to somebody else.
#[test]
fn a_read_only_directory() {
    let _alone = alone();
    let root = memory();
    let path = root.path().join("store");
    std::fs::create_dir(&path).unwrap();
    for folder in [root.path(), &path] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    run("in_a_directory_of_somebody_else", &path);
}

/// Not a test by itself: as nobody, where we are root.
#[test]
fn in_a_directory_of_somebody_else() {
    let Some(path) = place() else { return };
    // SAFETY: gives up rights of this process.
    unsafe { libc::setuid(65_534) };
    assert_told(&Embedded::open(&path).unwrap_err().to_string(), "Permission denied");
    assert_told(&Importer::open(&path.join("new"), "x", 1).unwrap_err().to_string(), "Permission denied");
}
