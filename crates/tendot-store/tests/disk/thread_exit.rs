//! Threads that have read from a store end before it is closed.
//!
//! Each has an entry in the engine's table of readers, and clears it at its very end: after its function has returned, when
//! a scope no longer waits for it. If the store is closed by then, the table is gone, and the process with it.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a function of the C library is replaced")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tendot_proto::Value;
use tendot_store::Importer;

/// Threads of imports that have come to their end.
static EXITED_THREADS: AtomicU32 = AtomicU32::new(0);

/// Comes from the engine when it looks whether an entry is to be cleared, and takes its time.
#[unsafe(no_mangle)]
extern "C" fn getpid() -> libc::pid_t {
    let mut name = [0_u8; 16];
    // SAFETY: so many bytes are written at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"tendot-import") {
        std::thread::sleep(Duration::from_millis(100));
        EXITED_THREADS.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

#[test]
fn import_thread_exits_before_close() {
    let directory = ram_dir();
    let mut importer = Importer::open(directory.path(), "importer", 1).unwrap();
    importer.put("10.1/name".into(), &[Value::new(1, "URL", "https://example.org/")]).unwrap();
    importer.finish(|_| {}).unwrap();
    assert_eq!(EXITED_THREADS.load(Ordering::SeqCst), 1);
}
