//! Own program because it replaces functions of the C library: file functions, to record or refuse changes of files, and `getpid`.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the seed of a failed test is shown")]

mod crash_consistency;
mod io_errors;
mod libc_shim;
mod thread_exit;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TEST_LOCK: RwLock<()> = RwLock::new(());

/// For tests that start processes, which have the locks of all open stores for a moment: no other test runs meanwhile.
fn serialize_tests() -> RwLockWriteGuard<'static, ()> {
    TEST_LOCK.write().unwrap_or_else(PoisonError::into_inner)
}

/// For all other tests.
fn run_beside_others() -> RwLockReadGuard<'static, ()> {
    TEST_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}
