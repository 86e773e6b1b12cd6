//! Abort points for crash tests; compiled out without the feature `fail-points`.

/// Names of all fail points.
#[cfg(feature = "fail-points")]
pub const FAIL_POINTS: [&str; 26] = [
    "create: the folder is made",
    "create: the store is made",
    "create: the store is in place",
    "commit: before the transaction",
    "commit: the history is written",
    "commit: the records are written",
    "commit: the log is written",
    "commit: before the engine commits",
    "commit: before the answer",
    "import: a run is written",
    "import: before a transaction",
    "import: between two transactions",
    "import: before the last commit",
    "import: after the last commit",
    "import: before it is settled",
    "import: after it is settled",
    "move: before a transaction",
    "move: before the engine commits",
    "move: after a transaction",
    "restore: the folder is made",
    "restore: the copy is written",
    "restore: the copy is a store",
    "restore: the old store is linked",
    "restore: the old lock is moved",
    "restore: the new store is in place",
    "restore: the old store is aside",
];

/// Aborts the process here if `TENDOT_FAIL_POINT` is this name and this is the pass number given by `TENDOT_FAIL_PASS`.
#[cfg(feature = "fail-points")]
pub(crate) fn hit(name: &'static str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static HITS: AtomicU32 = AtomicU32::new(0);
    assert!(FAIL_POINTS.contains(&name), "`{name}` is not in the list");
    if std::env::var("TENDOT_FAIL_POINT").is_ok_and(|wanted| wanted == name) {
        let pass = HITS.fetch_add(1, Ordering::SeqCst) + 1;
        if std::env::var("TENDOT_FAIL_PASS").is_ok_and(|wanted| wanted == pass.to_string()) {
            std::process::abort();
        }
    }
}

#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub(crate) const fn hit(_: &'static str) {}
