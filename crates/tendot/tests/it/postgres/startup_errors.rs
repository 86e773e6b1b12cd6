//! A server that cannot use its database exits with an error and a hint, without a password, and does not change the database.

use std::net::TcpListener;

use tendot_testing::postgres::shared_server;
use tendot_testing::{block_on, free_port};

use crate::support::{TestDir, TestServer, stderr};

/// Checks that the server exits with this error and hint.
#[track_caller]
fn check(store: &str, sentence: &str, hint: &str) {
    let dir = TestDir::new();
    let output =
        TestServer::builder(&dir).store(store).set("postgres.timeout=2s").command().output().unwrap();
    let messages = stderr(&output);
    let lines: Vec<_> = messages.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        matches!(&lines[..], [first, second] if first.starts_with("error: ") && second.starts_with("hint: ")),
        "{messages}"
    );
    assert!(lines[0].contains(sentence), "{messages}");
    assert!(lines[1].contains(hint), "{messages}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{messages}");
    assert!(!messages.contains("not-in-messages"), "{messages}");
}

/// Number of Tendot's tables in a database.
fn tables(database: &str) -> String {
    let sql = "select count(*) from pg_class where relname like 'tendot%'";
    block_on(shared_server().query_text(database, sql))
}

/// The first start of a server creates the tables.
fn create_tables(store: &str) {
    let dir = TestDir::new();
    assert_eq!(TestServer::builder(&dir).store(store).start().terminate(), Some(0));
}

#[test]
fn startup_errors() {
    let server = shared_server();
    let [poor, empty, newer, full] = [(); 4].map(|()| server.create_database());
    let run = |database: &str, sql: &str| block_on(server.execute(database, sql));
    let at = |user: &str, database: &str| format!("postgres://{user}@127.0.0.1:{}/{database}", server.port);
    check(
        "postgres://u:not-in-messages@host:port/d",
        "invalid connection string",
        "postgres://user:password@host:5432/database",
    );
    check("postgres://u:p@not-in-messages@host/d", "write `%40`", "postgres://user:password@host");
    check(
        "postgres://u:not-in-messages@host/d?colour=red",
        "`colour`",
        "postgres://user:password@host:5432/database",
    );

    server.create_role("locked login password 'right'");
    server.create_role("startup_poor login");
    check(&at("locked:not-in-messages", &poor), "authentication failed", "pg_hba.conf");
    check(&at("locked", &poor), "authentication failed", "pg_hba.conf");
    check(&at("nobody:not-in-messages", &poor), "authentication failed", "pg_hba.conf");
    check(&at("postgres:not-in-messages", "no_such"), "does not exist", "createdb");

    check(&at("startup_poor", &poor), "insufficient privileges", "grant `create`");
    assert_eq!(tables(&poor), "0");
    // A role with read access only.
    create_tables(&server.url(&full));
    run(&full, "grant select on all tables in schema public to startup_poor");
    check(&at("startup_poor", &full), "insufficient privileges", "once the tables exist");
    run(&full, "grant update on all tables in schema public to startup_poor");
    check(&at("startup_poor", &full), "missing privilege: insert on tendot_records", "once the tables exist");

    run("postgres", &format!("alter database {empty} set default_transaction_read_only = on"));
    check(&at("postgres:not-in-messages", &empty), "is read-only", "primary");
    assert_eq!(tables(&empty), "0");
    run("postgres", &format!("alter database {full} set default_transaction_read_only = on"));
    check(&server.url(&full), "is read-only", "primary");

    create_tables(&server.url(&newer));
    run(&newer, "update tendot_schema set version = 99, compatible = 98");
    let before = tables(&newer);
    check(&server.url(&newer), "requires a program that supports version 98", "upgrade tendot");
    assert_eq!(tables(&newer), before);
}

/// The server does not wait for an unreachable database; its supervisor restarts it.
#[test]
fn unreachable_database() {
    let store = format!("postgres://user:not-in-messages@127.0.0.1:{}/d", free_port());
    check(&store, "cannot reach the database", "tendot does not wait for it");
    // A server that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://user:not-in-messages@{}/d", silent.local_addr().unwrap());
    check(&store, "cannot reach the database", "tendot does not wait for it");
}
