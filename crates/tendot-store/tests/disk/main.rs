//! Disk failures: power loss, I/O errors and thread exit. A separate test program, because it replaces functions of the C
//! library: file functions, to record calls and inject errors, and `getpid`.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the seed of a failed test is shown")]

mod crash_consistency;
mod io_errors;
mod libc_shim;
mod thread_exit;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TEST_LOCK: RwLock<()> = RwLock::new(());

/// Exclusive lock for tests that start processes: between fork and exec a child holds the locks of all open stores.
fn serialize_tests() -> RwLockWriteGuard<'static, ()> {
    TEST_LOCK.write().unwrap_or_else(PoisonError::into_inner)
}

/// Shared lock for all other tests.
fn share_test_lock() -> RwLockReadGuard<'static, ()> {
    TEST_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}
