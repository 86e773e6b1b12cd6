//! Verification of a PostgreSQL store: `verify` reports every kind of corrupt row.

use tendot_proto::HandleValue;
use tendot_store::Precondition;

use super::{block_on, commit, open, put, server_and_database};

/// Each case corrupts a database with one statement and expects one report.
#[test]
fn verify_reports_corruption() {
    block_on(async {
        let cases = [
            ("select 1", ""),
            ("update tendot_records set body = substr(body, 2) where name = '10.1/a'", "record `10.1/A`"),
            ("update tendot_records set name = 'other' where name = '10.1/a'", "name does not match"),
            ("update tendot_records set revision = 99 where name = '10.1/a'", "is in the future"),
            ("update tendot_records set status = 7 where name = '10.1/a'", "status 7"),
            ("delete from tendot_records where name = '10.1/a'", "resulting record is missing"),
            ("update tendot_records set revision = 1 where name = '10.1/a'", "older than the change"),
            ("delete from tendot_log where sequence = 2", "log entry 2 missing"),
            ("update tendot_log set kind = 99 where sequence = 2", "kind 99"),
            ("update tendot_log set name = 'x' where sequence = 2", "refers to another name"),
            ("delete from tendot_log where sequence = 4", "last log entry: expected sequence 4"),
            ("update tendot_counters set revision = 9", "revision 9;"),
            ("update tendot_log set author = 'x' where sequence = 2", "log entry 2: content does not match"),
            (
                "update tendot_log set content_digest = previous_hash where sequence = 2",
                "log entry 3: previous hash does not match log entry 2",
            ),
            (
                "delete from tendot_log where sequence = 2; \
                 update tendot_log set sequence = sequence - 1 where sequence > 2",
                "log entry 2: previous hash does not match log entry 1",
            ),
            (
                "update tendot_log set sequence = 99 where sequence = 2; \
                 update tendot_log set sequence = 2 where sequence = 3; \
                 update tendot_log set sequence = 3 where sequence = 99",
                "log entry 2: previous hash does not match log entry 1",
            ),
            ("update tendot_counters set log_hash = ''", "hash of 0 bytes"),
            (
                "update tendot_counters set log_hash = (select previous_hash from tendot_log where sequence = 2)",
                "last log entry 4: hash does not match the head",
            ),
            ("update tendot_history set body = '' where sequence = 3", "values"),
            ("update tendot_history set sequence = 9 where sequence = 3", "no such log entry"),
            ("insert into tendot_homed values ('a')", "homed prefix `a`"),
            ("insert into tendot_aux values (repeat('x', 600)::bytea, '')", "invalid key length"),
        ];
        for (sql, expected) in cases {
            let (server, database) = server_and_database();
            let store = open(&server.url(&database)).await;
            for data in ["1", "2"] {
                let edits = vec![
                    put("10.1/a", data, Precondition::NotTombstone),
                    put("10.1/b", data, Precondition::NotTombstone),
                ];
                commit(&store, edits).await.unwrap();
            }
            server.execute(&database, sql).await;
            let verified = store.verify(|_| {}).await.unwrap();
            let is_reported = verified.errors.iter().any(|error| error.contains(expected));
            assert_eq!(is_reported, !expected.is_empty(), "{sql}: {:?}", verified.errors);
            assert_eq!(verified.error_count > 0, !expected.is_empty(), "{sql}");
        }
    });
}

/// A key range that does not cover the records of its import hides them from `names_at_revision`.
#[test]
fn verify_reports_wrong_key_range() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        let mut importer = store.start_import("importer", 1).unwrap();
        for name in ["10.1/a", "10.1/b", "10.1/c"] {
            importer.add(name.into(), &[HandleValue::new(1, "URL", "1")]).unwrap();
        }
        importer.finish(|_| {}).await.unwrap();
        // A later change has no range.
        commit(&store, vec![put("10.1/c", "2", Precondition::Live)]).await.unwrap();
        assert_eq!(store.verify(|_| {}).await.unwrap().errors, [""; 0]);
        server.execute(&database, "update tendot_log set first_key = '10.1/B' where kind = 7").await;
        let errors = store.verify(|_| {}).await.unwrap().errors;
        assert_eq!(errors, ["record `10.1/A`: outside the key range of its import"]);
        server.execute(&database, "update tendot_log set first_key = null where kind = 7").await;
        assert_eq!(store.verify(|_| {}).await.unwrap().errors, [""; 0]);
    });
}
