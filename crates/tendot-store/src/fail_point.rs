//! Abort points for crash tests; compiled out without the feature `fail-points`.

/// Names of all fail points.
#[cfg(feature = "fail-points")]
pub const FAIL_POINTS: [&str; 26] = [
    "create-dir",
    "create-store",
    "create-renamed",
    "commit-before-txn",
    "commit-after-history",
    "commit-after-records",
    "commit-after-log",
    "commit-before-lmdb-commit",
    "commit-before-reply",
    "import-after-run",
    "import-before-txn",
    "import-between-txns",
    "import-before-last-commit",
    "import-after-last-commit",
    "import-before-recovery-commit",
    "import-after-recovery-commit",
    "migrate-before-txn",
    "migrate-before-commit",
    "migrate-after-commit",
    "restore-dir",
    "restore-copied",
    "restore-opened",
    "restore-old-linked",
    "restore-old-lock-moved",
    "restore-renamed",
    "restore-old-moved",
];

/// Aborts the process here if `TENDOT_FAIL_POINT` is this name and this is the hit number given by `TENDOT_FAIL_HIT`.
#[cfg(feature = "fail-points")]
pub(crate) fn hit(name: &'static str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static HITS: AtomicU32 = AtomicU32::new(0);
    assert!(FAIL_POINTS.contains(&name), "unknown fail point `{name}`");
    if std::env::var("TENDOT_FAIL_POINT").is_ok_and(|wanted| wanted == name) {
        let hit = HITS.fetch_add(1, Ordering::SeqCst) + 1;
        if std::env::var("TENDOT_FAIL_HIT").is_ok_and(|wanted| wanted == hit.to_string()) {
            std::process::abort();
        }
    }
}

#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub(crate) const fn hit(_: &'static str) {}
