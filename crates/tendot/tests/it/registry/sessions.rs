//! `tendot session`: the operator lists and ends authenticated sessions of both protocols.

use super::{TestRegistry, check_error};
use crate::support::{NativeSession, SESSION_HOLDER, TestDir, TestServer, sessions};

#[test]
fn audit_f2_sessions_are_listed_and_ended() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().with_native().start();
    let mut session = NativeSession::open(&dir, &server);
    let registry = TestRegistry::of(dir, server);
    let [listed] = &*registry.json(&["session", "list"]) else { panic!("one session") };
    assert_eq!((&listed["protocol"], &listed["identity"]), (&"native".into(), &"301:10.5555/HOLDER".into()));
    let id = listed["id"].as_str().unwrap();
    let table = registry.run_ok(&["session", "list"]);
    assert!(table.contains(id) && table.contains(SESSION_HOLDER), "{table}");
    // Only the operator.
    for arguments in [&["session", "list"][..], &["session", "end", id]] {
        let anonymous = registry.command(arguments).env_remove("TENDOT_TOKEN").output().unwrap();
        check_error(&anonymous, 2, "authentication required", arguments);
    }
    session.write().unwrap();
    let ended = registry.run(&["session", "end", id]);
    assert_eq!(String::from_utf8_lossy(&ended.stderr), format!("session {id} ended\n"));
    assert!(ended.status.success() && sessions(&registry.server).is_empty());
    session.write().unwrap_err();
    registry.run_error(&["session", "end", id], 1, "(not-found)");
}
