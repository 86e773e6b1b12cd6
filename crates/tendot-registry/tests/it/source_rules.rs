//! Source rules: the crate uses no sockets, files, clocks, SQL or randomness; callers pass these in.

use std::fs;
use std::path::Path;

const FORBIDDEN: &[&str] = &[
    "std::net",
    "std::fs",
    "std::io",
    "std::time",
    "std::thread",
    "std::env",
    "std::process",
    "SystemTime",
    "Instant",
    "tokio",
    "SELECT ",
    "INSERT ",
];

#[test]
fn no_sockets_files_clocks_or_sql() {
    let mut files = 0;
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&path).unwrap();
            let mut code = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
            // Locks of Tokio need no runtime; only a batch starts tasks.
            let mut allowed = vec!["tokio::sync", "tokio::task::yield_now"];
            if path.ends_with("batch/run.rs") {
                allowed.extend(["tokio::spawn", "tokio::select", "tokio::task::JoinHandle"]);
            }
            // Signatures are made on a blocking thread.
            if path.ends_with("command/signing.rs") || path.ends_with("command/signature_renewal.rs") {
                let spawns = code.contains("tokio::task::spawn_blocking");
                assert!(spawns, "{} signs on a thread that serves requests", path.display());
                allowed.push("tokio::task::spawn_blocking");
            }
            for name in allowed {
                code = code.replace(name, "");
            }
            for word in FORBIDDEN {
                assert!(!code.contains(word), "{} has {word}", path.display());
            }
        }
    }
    assert!(files > 20, "only {files} files were read");
}
