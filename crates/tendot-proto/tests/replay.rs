//! Conversations as text: `conformance/replay/*.hdlt`, whose form is told in its README.

#![cfg(feature = "crypto")]

mod replay_support;

use std::path::Path;

use replay_support::script::run;

#[test]
fn conversations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/replay");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "hdlt") {
            let text = std::fs::read_to_string(&path).unwrap();
            if let Err((line, why)) = run(&text) {
                panic!("{}:{line}: {why}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} conversations");
}

/// A script that expects something else fails, and tells where.
#[test]
fn scripts_can_fail() {
    let text = "record 10.1000/1\n  1 URL https://a/\n\n> resolve 10.1000/1 over udp\n< RC_SUCCESS\n  1 URL https://b/\n";
    let (line, why) = run(text).unwrap_err();
    assert_eq!(line, 6);
    assert_eq!(why, "expected `1 URL https://b/`, but got `1 URL https://a/`");
    assert_eq!(run("> resolve 10.1000/1\n< RC_SUCCESS\n").unwrap_err().0, 2);
    assert_eq!(run("> dance\n").unwrap_err(), (1, "nobody can `dance`".into()));
    assert_eq!(run("> resolve 10.1000/1\n< RC_HANDLE_NOT_FOUND\n< RC_SUCCESS").unwrap_err().0, 3);
}
