//! Scripted conversations between a client and a server: `conformance/replay/*.hdlt`; its README describes the format.

mod client;
mod script;
mod server;

use script::run;
use tendot_testing::conformance;

#[test]
fn scripts_pass() {
    let mut seen = 0;
    for entry in std::fs::read_dir(conformance("replay")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "hdlt") {
            let text = std::fs::read_to_string(&path).unwrap();
            if let Err((line, error)) = run(&text) {
                panic!("{}:{line}: {error}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} scripts");
}

/// A script with other expectations fails, with the line.
#[test]
fn failures_have_a_line() {
    let text = "record 10.1000/1\n  1 URL https://a/\n\n> resolve 10.1000/1 over udp\n< RC_SUCCESS\n  1 URL https://b/\n";
    let (line, error) = run(text).unwrap_err();
    assert_eq!(line, 6);
    assert_eq!(error, "expected `1 URL https://b/`, but got `1 URL https://a/`");
    assert_eq!(run("> resolve 10.1000/1\n< RC_SUCCESS\n").unwrap_err().0, 2);
    assert_eq!(run("> dance\n").unwrap_err(), (1, "unknown request `dance`".into()));
    assert_eq!(run("> resolve 10.1000/1\n< RC_HANDLE_NOT_FOUND\n< RC_SUCCESS").unwrap_err().0, 3);
}
