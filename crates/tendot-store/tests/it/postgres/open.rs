//! Opening a database: creation and migration of the schema, privileges, TLS, and errors with hints.

use std::time::Duration;

use tendot_store::{Edit, PostgresOpenError, PostgresSettings, PostgresStore, Precondition, Store as _};

use tendot_testing::postgres::{PostgresServer, chown_private_file};
use tendot_testing::wait_until_async;

use super::{block_on, commit, open, put, server_and_database, settings, shared_server};

const COUNT_TABLES: &str = "select count(*) from pg_tables where tablename like 'tendot%'";

#[test]
fn concurrent_first_opens() {
    block_on(async {
        let server = shared_server();
        let address = server.url(&server.create_database());
        let opening: Vec<_> = (0..8)
            .map(|_| {
                let address = address.clone();
                tokio::spawn(async move { open(&address).await })
            })
            .collect();
        for (number, store) in opening.into_iter().enumerate() {
            let name = format!("10.1000/{number}");
            commit(&store.await.unwrap(), vec![put(&name, "x", Precondition::Absent)]).await.unwrap();
        }
    });
}

#[test]
fn open_errors() {
    block_on(async {
        let server = shared_server();
        let port = server.port;
        server.create_role("locked login password 'right'");
        server.create_role("guest login");
        let (empty, newer, created) =
            (server.create_database(), server.create_database(), server.create_database());
        let read_only = server.create_database();
        for database in [&newer, &created] {
            drop(open(&server.url(database)).await);
        }
        server.execute(&newer, "update tendot_schema set version = 99, compatible = 98").await;
        let sql = format!("alter database {read_only} set default_transaction_read_only = on");
        server.execute("postgres", &sql).await;
        let url = |user: &str, database: &str| format!("postgres://{user}@127.0.0.1:{port}/{database}");

        check("postgres://", "no host given").await;
        check("embedded:somewhere", "invalid connection string").await;
        check("postgres://postgres@127.0.0.1:1/x", "cannot reach the database 127.0.0.1:1/x").await;
        check("postgres://postgres@no-such-host.invalid/x", "cannot reach the database").await;
        check(&url("locked:wrong", &empty), "authentication failed").await;
        check(&url("locked", &empty), "authentication failed").await;
        check(&url("nobody", &empty), "authentication failed").await;
        check(&url("postgres", "no_such"), "does not exist").await;
        check(&url("guest", &empty), "insufficient privileges").await;
        check(&url("guest", &created), "insufficient privileges").await;
        check(&url("postgres", &read_only), "is read-only").await;
        check(&url("postgres", &newer), "requires a program that supports version 98; this one supports 7")
            .await;
        check(&format!("{}?sslmode=require", url("postgres", &empty)), "TLS connection to").await;
        let bound = url("locked:right", &empty);
        check(&format!("{bound}?channel_binding=require"), "authentication failed").await;
        assert_eq!(server.query_text(&empty, COUNT_TABLES).await, "0", "no table was created");

        // A schema from before the first release.
        server.execute(&newer, "update tendot_schema set version = 5, compatible = 5").await;
        check(&url("postgres", &newer), "schema version 5 in").await;
        check(&url("postgres", &newer), "is not supported; the first supported version is 6").await;
        server.execute(&newer, "update tendot_schema set version = 99").await;

        // A newer schema that is compatible.
        server.execute(&newer, "update tendot_schema set compatible = 1").await;
        commit(&open(&url("postgres", &newer)).await, vec![put("10.1000/1", "x", Precondition::Absent)])
            .await
            .unwrap();
        let settings = PostgresSettings { migrate_schema: false, ..settings() };
        let error = PostgresStore::open(&url("postgres", &empty), &settings).await.unwrap_err();
        assert!(matches!(error, PostgresOpenError::SchemaTooOld { version: 0, .. }), "{error}");
        // A role that may not create tables may use existing ones.
        let grant = "grant select, insert, update, delete on all tables in schema public to guest";
        server.execute(&created, grant).await;
        commit(&open(&url("guest", &created)).await, vec![put("10.1000/1", "x", Precondition::Absent)])
            .await
            .unwrap();
        server.execute("postgres", &format!("alter database {empty} owner to locked")).await;
        commit(&open(&url("locked:right", &empty)).await, vec![put("10.1000/1", "x", Precondition::Absent)])
            .await
            .unwrap();
    });
}

/// Opening the store reports every missing privilege by name.
#[test]
fn each_missing_privilege_is_named() {
    const REQUIRED_PRIVILEGES: &[(&str, &[&str])] = &[
        ("records", &["select", "insert", "update", "delete"]),
        ("log", &["select", "insert"]),
        ("history", &["select", "insert", "update"]),
        ("homed", &["select", "insert", "delete"]),
        ("aux", &["select", "insert", "update", "delete"]),
        ("counters", &["select", "update"]),
        ("commits", &["select", "insert", "delete"]),
        ("migration", &["select"]),
        ("schema", &["select"]),
    ];
    block_on(async {
        let server = shared_server();
        let database = super::new_database();
        server.create_role("writer login");
        let address = server.url(&database).replace("//postgres@", "//writer@");
        for (table, privileges) in REQUIRED_PRIVILEGES {
            let grant = format!("grant {} on tendot_{table} to writer", privileges.join(", "));
            server.execute(&database, &grant).await;
        }
        for (table, privileges) in REQUIRED_PRIVILEGES {
            for privilege in *privileges {
                server.execute(&database, &format!("revoke {privilege} on tendot_{table} from writer")).await;
                check(&address, "insufficient privileges").await;
                check(&address, &format!("tendot_{table}")).await;
                server.execute(&database, &format!("grant {privilege} on tendot_{table} to writer")).await;
            }
        }
        // No other privileges are needed.
        let store = open(&address).await;
        let edits = || {
            vec![
                put("10.1000/1", "x", Precondition::NotTombstone),
                Edit::Home { prefix: "10.1000".into() },
                Edit::PutAux { key: b"aux"[..].into(), value: b"x"[..].into() },
            ]
        };
        let inverse_edits = || {
            vec![
                Edit::Remove { name: "10.1000/1".into(), precondition: Precondition::NotTombstone },
                Edit::Unhome { prefix: "10.1000".into() },
                Edit::RemoveAux { key: b"aux"[..].into() },
            ]
        };
        for edits in [edits(), edits(), inverse_edits()] {
            commit(&store, edits).await.unwrap();
        }
    });
}

async fn check(address: &str, expected: &str) {
    let error = PostgresStore::open(address, &settings()).await.err().unwrap_or_else(|| panic!("{address}"));
    assert!(error.to_string().contains(expected), "{address}: {error}");
    assert!(!error.to_string().contains("wrong"), "no passwords: {error}");
    assert!(!error.hint().is_empty());
}

/// A schema migration that fails at its end, or is terminated, changes nothing; the next one does everything.
#[test]
fn schema_migration_is_atomic() {
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let address = server.url(&database);
        server.execute(&database, "create table tendot_counters (id text)").await;
        let error = PostgresStore::open(&address, &settings()).await.unwrap_err();
        assert!(matches!(error, PostgresOpenError::Other { .. }), "{error}");
        assert_eq!(server.query_text(&database, COUNT_TABLES).await, "1");
        server.execute(&database, "drop table tendot_counters").await;

        // Another session blocks it in the middle until the waiting session has been terminated.
        let other = server.connect(&database).await;
        other.batch_execute("begin; create table tendot_counters (id text)").await.unwrap();
        let opening = tokio::spawn({
            let address = address.clone();
            async move { PostgresStore::open(&address, &settings()).await.map(drop) }
        });
        let kill = format!(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = '{database}' and application_name = 'tendot' and wait_event_type = 'Lock'"
        );
        let is_killed = async || server.query_text("postgres", &kill).await != "0";
        wait_until_async("the waiting session is terminated", is_killed).await;
        opening.await.unwrap().unwrap_err();
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(server.query_text(&database, COUNT_TABLES).await, "0");
        commit(&open(&address).await, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
    });
}

/// A migration from the first schema takes the time of the last change, so that the next one is not earlier.
#[test]
fn migration_takes_the_time_of_the_last_change() {
    block_on(async {
        let (server, database) = server_and_database();
        let address = server.url(&database);
        let store = open(&address).await;
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        drop(store);
        let later_ms: u64 = 4_102_444_800_000;
        let statements = [
            &format!("update tendot_log set timestamp_ms = {later_ms}"),
            "alter table tendot_counters drop column timestamp_ms, drop column timeline",
            "update tendot_schema set version = 6, compatible = 6",
        ];
        for statement in statements {
            server.execute(&database, statement).await;
        }
        let store = open(&address).await;
        commit(&store, vec![put("10.1000/2", "x", Precondition::Absent)]).await.unwrap();
        let log = store.read_log(0, 10).await.unwrap();
        assert!(log.iter().all(|log_entry| log_entry.timestamp_ms == later_ms), "{log:?}");
    });
}

/// Opening waits for a schema migration of another server, longer than for other locks, but not without limit.
#[test]
fn waits_for_concurrent_migration() {
    block_on(async {
        let (server, database) = server_and_database();
        let address = server.url(&database);
        let other = server.connect(&database).await;
        server.execute(&database, "update tendot_schema set version = 0").await;
        let settings = PostgresSettings { wait_timeout: Duration::from_millis(300), ..settings() };
        other.batch_execute("begin; select 1 from tendot_schema for update").await.unwrap();
        // With this short timeout, other calls may fail, too, on a busy machine.
        wait_until_async("opening ends because of the lock", async || {
            let error = PostgresStore::open(&address, &settings).await.unwrap_err();
            assert!(
                matches!(
                    error,
                    PostgresOpenError::SchemaLocked { .. } | PostgresOpenError::Unreachable { .. }
                ),
                "{error}"
            );
            matches!(error, PostgresOpenError::SchemaLocked { .. })
        })
        .await;
        let release = async {
            // Longer than the timeout for other locks.
            tokio::time::sleep(3 * settings.wait_timeout).await;
            other.batch_execute("commit").await.unwrap();
        };
        let (opened, ()) = tokio::join!(PostgresStore::open(&address, &settings), release);
        match opened {
            Err(error) => assert!(matches!(error, PostgresOpenError::Unreachable { .. }), "{error}"),
            Ok(opened) => drop(opened),
        }
        commit(&open(&address).await, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
    });
}

/// Over Unix sockets, which are never encrypted, whatever the `sslmode`; the host is given as an option.
#[test]
fn unix_sockets() {
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let (directory, port) =
            (server.query_text("postgres", "show unix_socket_directories").await, server.port);
        for mode in ["prefer", "require", "verify-full"] {
            let address =
                format!("postgres:///{database}?user=postgres&host={directory}&port={port}&sslmode={mode}");
            commit(&open(&address).await, vec![put("10.1000/1", "x", Precondition::NotTombstone)])
                .await
                .unwrap();
        }
    });
}

/// Over TLS, with a certificate that is verified.
#[test]
fn tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    chown_private_file(&key);
    let server = PostgresServer::start_volatile(&format!(
        "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'",
        certificate.display(),
        key.display()
    ));
    block_on(async {
        server.execute("postgres", "create role locked login superuser password 'right'").await;
        let url = |host: &str, rest: &str| {
            format!("postgres://locked:right@{host}:{}/postgres?hostaddr=127.0.0.1{rest}", server.port)
        };
        let trusted = format!("&sslrootcert={}", certificate.display());
        for mode in
            ["", "&sslmode=require", "&sslmode=verify-full", "&sslmode=require&channel_binding=require"]
        {
            let store = open(&url("localhost", &format!("{mode}{trusted}"))).await;
            let name = format!("10.1000/{mode}");
            commit(&store, vec![put(&name, "x", Precondition::Absent)]).await.unwrap();
            let sql = "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) \
                       where ssl and application_name = 'tendot'";
            assert_ne!(server.query_text("postgres", sql).await, "0", "{mode}");
        }
        check(&url("localhost", ""), "TLS connection to").await;
        check(&url("localhost", "&sslmode=require"), "TLS connection to").await;
        check(&url("other.example.org", &trusted), "TLS connection to").await;
        drop(open(&url("localhost", "&sslmode=disable")).await);
    });
}
