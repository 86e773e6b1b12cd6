//! Thread exit: threads that have read from a store exit before it is closed.
//!
//! Each thread has an entry in LMDB's reader table and clears it when it exits: after its function has returned, when a scope no
//! longer waits for it. If the store is already closed, the table is unmapped, and the process crashes.

#![allow(unsafe_code, reason = "a function of the C library is replaced")]

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tendot_proto::HandleValue;
use tendot_store::EmbeddedImporter;
use tendot_testing::ram_dir;

use crate::serialize_tests;

/// Whether import threads are delayed and counted.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Import threads that have exited.
static EXITED_THREADS: AtomicU32 = AtomicU32::new(0);

/// LMDB calls this in an exiting thread before it clears the thread's entry.
#[unsafe(no_mangle)]
extern "C" fn getpid() -> libc::pid_t {
    let mut name = [0_u8; 16];
    // SAFETY: at most 16 bytes are written.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if IS_ACTIVE.load(Ordering::SeqCst) && name.starts_with(b"tendot-import") {
        // Without a delay the thread would exit in time by chance even if nothing waited for it.
        std::thread::sleep(Duration::from_millis(100));
        EXITED_THREADS.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: has no arguments and no effect.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

fn importer(directory: &Path) -> EmbeddedImporter {
    let mut importer = EmbeddedImporter::open(directory, "importer", 1).unwrap();
    importer.add("10.1/name".into(), &[HandleValue::new(1, "URL", "https://example.org/")]).unwrap();
    importer
}

/// Runs `import` with delayed import threads; returns how many have exited when it returns.
fn exited_threads(import: impl FnOnce()) -> u32 {
    let before = EXITED_THREADS.load(Ordering::SeqCst);
    IS_ACTIVE.store(true, Ordering::SeqCst);
    import();
    IS_ACTIVE.store(false, Ordering::SeqCst);
    EXITED_THREADS.load(Ordering::SeqCst) - before
}

#[test]
fn import_thread_exits_before_close() {
    let _lock = serialize_tests();
    let directory = ram_dir();
    let importer = importer(directory.path());
    assert_eq!(exited_threads(|| drop(importer.finish(|_| {}).unwrap())), 1);
}

#[test]
fn import_thread_exits_before_close_after_panic() {
    let _lock = serialize_tests();
    let directory = ram_dir();
    let importer = importer(directory.path());
    let exited = exited_threads(|| {
        let interrupted = std::panic::catch_unwind(AssertUnwindSafe(|| {
            importer.finish(|_| std::panic::resume_unwind(Box::new("interrupted")))
        }));
        assert!(interrupted.is_err());
    });
    assert_eq!(exited, 1);
}
