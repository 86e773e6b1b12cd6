//! The sources of the crate use no sockets, files, threads or clocks.

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
    "Timestamp::now",
    "Zoned::now",
    "tokio",
    "extern crate std",
];

#[test]
fn sources_use_no_io() {
    let mut files = 0;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&path).unwrap();
            // Unit tests are at the end of their file, and may use the standard library.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for (index, line) in
                code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
            {
                for word in FORBIDDEN {
                    let is_allowed = line.trim() == "extern crate std;" && path == source.join("lib.rs");
                    assert!(is_allowed || !line.contains(word), "{}:{}: {line}", path.display(), index + 1);
                }
            }
        }
    }
    assert!(files > 20, "only {files} files were checked");
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    assert!(lib.contains("#![no_std]"));
    assert!(lib.contains("#[cfg(test)]\nextern crate std;"), "std is for unit tests only");
}
