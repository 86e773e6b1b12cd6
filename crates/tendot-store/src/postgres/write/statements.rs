//! SQL statements of write transactions: commits, imports and migrations.

use deadpool_postgres::Object;
use tokio_postgres::{Error, Statement};

use crate::EditKind;

/// Number of recent commit ids that are retained to resolve in-doubt transactions.
pub(crate) const RETAINED_COMMIT_IDS: i64 = 100_000;

// Statements and the index `tendot_log_imports` have the code of imports as a literal, so that the planner uses the index.
const _: () = assert!(EditKind::Import.code() == 7);

/// Starts a transaction in which each statement sees everything committed before it; those after the first hold the lock.
pub(crate) const BEGIN_READ_COMMITTED: &str = "begin isolation level read committed";

/// Takes the lock that every write transaction holds. Columns: head of the log, number of the last commit, new commit id, recorded
/// timeline, time of the last log entry, time of the database.
pub(crate) const LOCK_COUNTERS: &str = "select revision, sequence, log_hash, commits, gen_random_uuid()::text, timeline, timestamp_ms, \
     (extract(epoch from clock_timestamp()) * 1000)::bigint \
     from tendot_counters where id = 1 for update";

/// Ends every write transaction: updates the counters, inserts the id of the commit, and deletes the expired one. By commit ids,
/// in-doubt transactions are resolved and hosts detect a diverged history after a failover.
pub(crate) const RECORD_COMMIT: &str = "with expired as (delete from tendot_commits where number = $6), \
     inserted as (insert into tendot_commits (number, commit_id) values ($4, $5)) \
     update tendot_counters set revision = $1, sequence = $2, log_hash = $3, commits = $4, timestamp_ms = $7 where id = 1";

pub(crate) const SELECT_RECORDS: &str =
    "select name, revision, status, body, registration from tendot_records where name_key = any($1)";

pub(crate) const SELECT_HOMED: &str = "select name_key from tendot_homed where name_key = any($1)";

pub(crate) const SELECT_AUX: &str = "select aux_key, value from tendot_aux where aux_key = any($1)";

pub(crate) const UPSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, status, body, registration) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[]) \
     on conflict (name_key) do update set name = excluded.name, revision = excluded.revision, \
     status = excluded.status, body = excluded.body, registration = excluded.registration";

pub(crate) const DELETE_RECORDS: &str = "delete from tendot_records where name_key = any($1)";

macro_rules! insert_history {
    () => {
        "insert into tendot_history (name_key, sequence, name, revision, status, body, registration) select * from \
         unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[])"
    };
}

pub(crate) const INSERT_HISTORY: &str = insert_history!();

/// Redacts entries that have a prior record.
pub(crate) const REDACT_HISTORY: &str = "update tendot_history h set body = r.body, registration = r.registration \
     from unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[]) r (name_key, sequence, body, registration) \
     where h.name_key = r.name_key and h.sequence = r.sequence and h.name is not null";

/// For migrations, which may write an entry again.
pub(crate) const UPSERT_HISTORY: &str = concat!(
    insert_history!(),
    " on conflict (name_key, sequence) do update set name = excluded.name, revision = excluded.revision, \
     status = excluded.status, body = excluded.body, registration = excluded.registration"
);

pub(crate) const INSERT_LOG: &str = "insert into tendot_log (sequence, revision, timestamp_ms, author, kind, name, record_count, \
     previous_hash, content_digest) select * from \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bytea[], $7::bigint[], \
     $8::bytea[], $9::bytea[])";

pub(crate) const INSERT_HOMED: &str =
    "insert into tendot_homed (name_key) select * from unnest($1::bytea[]) on conflict (name_key) do nothing";

pub(crate) const DELETE_HOMED: &str = "delete from tendot_homed where name_key = any($1)";

pub(crate) const UPSERT_AUX: &str = "insert into tendot_aux (aux_key, value) select * from unnest($1::bytea[], $2::bytea[]) \
     on conflict (aux_key) do update set value = excluded.value";

pub(crate) const DELETE_AUX: &str = "delete from tendot_aux where aux_key = any($1)";

pub(crate) const SELECT_COMMIT_ID: &str = "select commit_id from tendot_commits where number = $1";

/// Returns the first missing privilege.
pub(crate) const SELECT_MISSING_PRIVILEGE: &str = "select n.privilege || ' on ' || n.name from (values \
     (1, 'tendot_records', 'select'), (2, 'tendot_records', 'insert'), (3, 'tendot_records', 'update'), \
     (4, 'tendot_records', 'delete'), (5, 'tendot_log', 'select'), (6, 'tendot_log', 'insert'), \
     (7, 'tendot_history', 'select'), (8, 'tendot_history', 'insert'), (9, 'tendot_homed', 'select'), \
     (10, 'tendot_homed', 'insert'), (11, 'tendot_homed', 'delete'), (12, 'tendot_aux', 'select'), \
     (13, 'tendot_aux', 'insert'), (14, 'tendot_aux', 'update'), (15, 'tendot_aux', 'delete'), \
     (16, 'tendot_counters', 'update'), (17, 'tendot_commits', 'select'), (18, 'tendot_commits', 'insert'), \
     (19, 'tendot_commits', 'delete'), (20, 'tendot_migration', 'select'), \
     (21, 'tendot_history', 'update')) n (number, name, privilege) \
     where not has_table_privilege(n.name, n.privilege) order by n.number limit 1";

/// Declares a struct of prepared statements; all are prepared at the same time.
macro_rules! prepared_statements {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $sql:expr,)* }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $field: Statement,)*
        }

        impl $name {
            pub(crate) async fn prepare(client: &Object) -> Result<Self, Error> {
                let ($($field,)*) = tokio::try_join!($(client.prepare_cached($sql),)*)?;
                Ok(Self { $($field,)* })
            }
        }
    };
}

prepared_statements! {
    /// Statements that take the lock and read the current state.
    PrefetchStatements {
        lock: LOCK_COUNTERS,
        records: SELECT_RECORDS,
        homed: SELECT_HOMED,
        aux: SELECT_AUX,
    }
}

prepared_statements! {
    /// Statements that write a batch.
    WriteStatements {
        record_commit: RECORD_COMMIT,
        upsert_records: UPSERT_RECORDS,
        delete_records: DELETE_RECORDS,
        insert_history: INSERT_HISTORY,
        redact_history: REDACT_HISTORY,
        insert_log: INSERT_LOG,
        insert_homed: INSERT_HOMED,
        delete_homed: DELETE_HOMED,
        upsert_aux: UPSERT_AUX,
        delete_aux: DELETE_AUX,
    }
}
