//! `verify` of a PostgreSQL store reports every kind of corrupt row.

use tendot_store::Precondition;

use super::{block_on, commit, open, put, server_and_database};

/// Each case corrupts a database with one statement and expects one report.
#[test]
fn verify_reports_corruption() {
    block_on(async {
        let cases = [
            ("select 1", ""),
            ("update tendot_records set body = substr(body, 2) where name = '10.1/a'", "record `10.1/A`"),
            ("update tendot_records set name = 'other' where name = '10.1/a'", "another name"),
            ("update tendot_records set revision = 99 where name = '10.1/a'", "has not been given"),
            ("update tendot_records set state = 7 where name = '10.1/a'", "state 7"),
            ("delete from tendot_records where name = '10.1/a'", "not there"),
            ("update tendot_records set revision = 1 where name = '10.1/a'", "came earlier"),
            ("delete from tendot_log where sequence = 2", "2 is missing"),
            ("update tendot_log set kind = 99 where sequence = 2", "kind 99"),
            ("update tendot_log set name = 'x' where sequence = 2", "about another name"),
            ("delete from tendot_log where sequence = 4", "last line of the log should be 4"),
            ("update tendot_counters set revision = 9", "of change 9"),
            ("update tendot_history set body = '' where sequence = 3", "values"),
            ("update tendot_history set sequence = 9 where sequence = 3", "no such line"),
            ("insert into tendot_homed values ('a')", "prefix `a`"),
            ("insert into tendot_notes values (repeat('x', 600)::bytea, '')", "a key that is not kept"),
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
            let is_reported = verified.damage.iter().any(|damage| damage.contains(expected));
            assert_eq!(is_reported, !expected.is_empty(), "{sql}: {:?}", verified.damage);
            assert_eq!(verified.damaged > 0, !expected.is_empty(), "{sql}");
        }
    });
}
