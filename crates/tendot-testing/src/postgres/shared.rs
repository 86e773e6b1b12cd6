use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::PostgresServer;
use crate::wait_until;

/// Names the port of a running server that all test programs of a run share; set by `cargo xtask test`.
pub const SHARED_SERVER: &str = "TENDOT_TEST_POSTGRES_PORT";

/// The server for all tests that leave it as it is: that of the whole run if there is one, otherwise one for this process. It
/// never waits for the disk.
pub fn shared_server() -> &'static PostgresServer {
    static SHARED: OnceLock<PostgresServer> = OnceLock::new();
    SHARED.get_or_init(|| match std::env::var(SHARED_SERVER) {
        Ok(port) => PostgresServer::attach(port.parse().expect("a port number")),
        Err(_) => PostgresServer::start_shared(),
    })
}

/// The URL of an empty database of the shared server, for one test.
pub fn create_database_url() -> String {
    shared_server().url(&shared_server().create_database())
}

/// The URL of a database that is a copy of a template, which `prepare` fills once in a run, given its URL.
///
/// `prepare` must close its connections, at least soon: PostgreSQL copies no database that is in use.
pub fn database_from_template(template: &str, prepare: impl FnOnce(&str)) -> String {
    let server = shared_server();
    static READY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
    if !ready.contains(template) {
        let lock = File::create(std::env::temp_dir().join("tendot-test-template.lock")).unwrap();
        lock.lock().unwrap();
        if server.psql(&format!("select 1 from pg_database where datname = '{template}'")).is_empty() {
            let draft = format!("{template}_draft");
            server.psql(&format!("drop database if exists {draft}"));
            server.psql(&format!("create database {draft}"));
            prepare(&server.url(&draft));
            let sessions = format!("select count(*) from pg_stat_activity where datname = '{draft}'");
            wait_until("the template has no sessions", || server.psql(&sessions) == "0");
            server.psql(&format!("alter database {draft} rename to {template}"));
        }
        ready.insert(template.to_owned());
    }
    drop(ready);
    server.url(&server.clone_database(template))
}
