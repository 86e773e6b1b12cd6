//! SQL errors: transient errors are retried until a deadline, permanent ones are reported at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tendot_store::{
    CommitError, NameKey, PostgresOpenError, PostgresSettings, PostgresStore, Precondition, Store as _,
    StoreError,
};

use tendot_testing::postgres::PostgresServer;
use tendot_testing::{WAIT_TIMEOUT, wait_until};

use super::chaos_proxy::ChaosProxy;
use super::{block_on, commit, logged_names, open, put, server_and_database, settings};

/// Opens a database in which an insert into the log fails this many times with this SQLSTATE.
async fn open_failing(
    code: &str,
    times: u32,
    settings: &PostgresSettings,
) -> (PostgresStore, &'static PostgresServer, String) {
    let (server, database) = server_and_database();
    let store = PostgresStore::open(&server.url(&database), settings).await.unwrap();
    let sql = format!(
        "create sequence failures; \
         create function fail() returns trigger language plpgsql as $$ begin \
             if nextval('failures') <= {times} then raise exception 'not now' using errcode = '{code}'; end if; \
             return new; end $$; \
         create trigger fail before insert on tendot_log for each row execute function fail()"
    );
    server.execute(&database, &sql).await;
    (store, server, database)
}

/// Settings for calls that are expected to time out; long enough for other calls on a busy machine.
fn short_timeout() -> PostgresSettings {
    PostgresSettings { wait_timeout: Duration::from_secs(2), ..settings() }
}

#[test]
fn retries_transient_errors() {
    block_on(async {
        for code in ["40001", "40P01", "57P01"] {
            let (store, ..) = open_failing(code, 3, &settings()).await;
            commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
            assert_eq!(logged_names(&store).await, ["10.1000/1"], "{code}");
        }
    });
}

#[test]
fn retries_end_at_deadline() {
    block_on(async {
        let (store, server, database) = open_failing("40001", u32::MAX, &short_timeout()).await;
        let committing = commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]);
        let error = tokio::time::timeout(WAIT_TIMEOUT, committing).await.expect("no timeout").unwrap_err();
        assert!(matches!(error, CommitError::Store(StoreError::Unavailable { .. })), "{error}");
        assert!(error.to_string().contains("not now"), "{error}");
        assert!(store.get(&NameKey::new("10.1000/1").unwrap()).await.unwrap().is_none());
        server.execute(&database, "drop trigger fail on tendot_log").await;
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        assert_eq!(logged_names(&store).await, ["10.1000/1"]);
    });
}

/// Permanent errors are reported at once, with their cause.
#[test]
fn reports_permanent_errors() {
    block_on(async {
        for (code, expected) in
            [("53100", "disk full"), ("25006", "store is read-only"), ("22000", "not now")]
        {
            let (store, ..) = open_failing(code, 1, &settings()).await;
            let error = commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{code}: {error}");
            assert_eq!(logged_names(&store).await, [""; 0]);
            commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        }
    });
}

/// An error of one change set does not affect those that are committed together with it.
#[test]
fn isolates_failing_change_set() {
    block_on(async {
        let (store, server, database) = open_failing("22000", 0, &settings()).await;
        let sql = "create or replace function fail() returns trigger language plpgsql as $$ begin \
             if new.name = convert_to('10.1000/7', 'UTF8') then raise exception 'not this' using errcode = '22000'; end if; \
             return new; end $$";
        server.execute(&database, sql).await;
        let store = Arc::new(store);
        let committing: Vec<_> = (0..32)
            .map(|number| {
                let (store, name) = (Arc::clone(&store), format!("10.1000/{number}"));
                tokio::spawn(async move { commit(&store, vec![put(&name, "x", Precondition::Absent)]).await })
            })
            .collect();
        for (number, committed) in committing.into_iter().enumerate() {
            match committed.await.unwrap() {
                Err(error) => {
                    assert!(number == 7 && error.to_string().contains("not this"), "{number}: {error}");
                }
                Ok(_) => assert_ne!(number, 7),
            }
        }
        assert_eq!(logged_names(&store).await.len(), 31);
    });
}

/// Connections that the server terminates are replaced, for reads and for writes.
#[test]
fn terminated_connections_are_replaced() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        let key = NameKey::new("10.1000/1").unwrap();
        for number in 0..20 {
            commit(&store, vec![put("10.1000/1", &number.to_string(), Precondition::NotTombstone)])
                .await
                .unwrap();
            let terminate_sql = format!(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where datname = '{database}' and pid <> pg_backend_pid()"
            );
            server.execute(&database, &terminate_sql).await;
            let entry = store.get(&key).await.unwrap().unwrap();
            assert_eq!(entry.values[0].data, number.to_string().as_bytes());
        }
        assert_eq!(logged_names(&store).await.len(), 20);
    });
}

/// A commit waits for the writers' lock until its timeout; reads are not affected.
#[test]
fn lock_timeout() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = PostgresStore::open(&server.url(&database), &short_timeout()).await.unwrap();
        let other = server.connect(&database).await;
        other.batch_execute("begin; select 1 from tendot_counters for update").await.unwrap();
        let error = commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap_err();
        assert!(error.to_string().contains("lock"), "{error}");
        assert!(store.get(&NameKey::new("10.1000/1").unwrap()).await.unwrap().is_none());
        other.batch_execute("rollback").await.unwrap();
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
    });
}

/// Opening ends with a timeout if the server, such as a connection pooler, accepts logins and then never responds.
#[test]
fn unresponsive_after_login() {
    block_on(async {
        let (server, database) = server_and_database();
        let proxy = ChaosProxy::start(server.port).await;
        let address = format!("postgres://postgres@127.0.0.1:{}/{database}", proxy.port);
        let settings = short_timeout();
        proxy.hold_at(Some(b"set statement_timeout"));
        let opened = tokio::time::timeout(WAIT_TIMEOUT, PostgresStore::open(&address, &settings));
        let error = opened.await.expect("no timeout").unwrap_err();
        assert!(matches!(error, PostgresOpenError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("request timed out"), "{error}");
        proxy.hold_at(None);
        let store = open(&address).await;
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
    });
}

/// A corrupt record is reported and does not affect other records.
#[test]
fn corrupt_record() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        server.execute(&database, "update tendot_records set body = substr(body, 2)").await;
        let error = store.get(&NameKey::new("10.1000/1").unwrap()).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let (corrupt, intact) = tokio::join!(
            commit(&store, vec![put("10.1000/1", "y", Precondition::NotTombstone)]),
            commit(&store, vec![put("10.1000/2", "y", Precondition::NotTombstone)]),
        );
        assert!(matches!(corrupt.unwrap_err(), CommitError::Store(StoreError::Corrupt { .. })));
        intact.unwrap();
    });
}

/// A connection that was in use during an error is closed: its session may be in any state.
#[test]
fn connections_with_errors_are_closed() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        store.scan_records(None, None, |_| true).await.unwrap();
        let sql = format!("select pid from pg_stat_activity where datname = '{database}'");
        let sessions = || server.psql(&sql).lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let before = sessions();
        server.execute(&database, "update tendot_records set body = substr(body, 2)").await;
        let error = store.scan_records(None, None, |_| true).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        wait_until("the session is closed", || !before.is_subset(&sessions()));
    });
}
