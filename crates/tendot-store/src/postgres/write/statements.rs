//! SQL statements of write transactions.

/// Number of recent commit ids that are retained to resolve in-doubt transactions.
pub(crate) const RETAINED_COMMIT_IDS: i64 = 100_000;

/// Starts a transaction in which each statement sees everything committed before it; those after the first hold the lock.
pub(crate) const BEGIN_READ_COMMITTED: &str = "begin isolation level read committed";

pub(crate) const LOCK_COUNTERS: &str = "select revision, sequence, commits, gen_random_uuid()::text from tendot_counters where id = 1 for update";

pub(crate) const PREFETCH_SQL: [&str; 3] = [
    "select name, revision, status, body, registration from tendot_records where name_key = any($1)",
    "select name_key from tendot_homed where name_key = any($1)",
    "select aux_key, value from tendot_aux where aux_key = any($1)",
];

pub(crate) const WRITE_SQL: [&str; 11] = [
    "insert into tendot_commits (number, commit_id) values ($1, $2)",
    "delete from tendot_commits where number = $1",
    "update tendot_counters set revision = $1, sequence = $2, commits = $3 where id = 1",
    "insert into tendot_records (name_key, name, revision, status, body, registration) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[]) \
     on conflict (name_key) do update set name = excluded.name, revision = excluded.revision, \
     status = excluded.status, body = excluded.body, registration = excluded.registration",
    "delete from tendot_records where name_key = any($1)",
    "insert into tendot_history (name_key, sequence, name, revision, status, body, registration) select * from \
     unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[])",
    "insert into tendot_log (sequence, revision, timestamp_ms, author, kind, name, record_count) select * from \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bytea[], $7::bigint[])",
    "insert into tendot_homed (name_key) select * from unnest($1::bytea[]) on conflict (name_key) do nothing",
    "delete from tendot_homed where name_key = any($1)",
    "insert into tendot_aux (aux_key, value) select * from unnest($1::bytea[], $2::bytea[]) \
     on conflict (aux_key) do update set value = excluded.value",
    "delete from tendot_aux where aux_key = any($1)",
];

/// Inserts a commit id for the current counter, for transactions that need no resolution: by it hosts detect a diverged history
/// after a failover.
pub(crate) const INSERT_COMMIT_ID: &str = "insert into tendot_commits (number, commit_id) \
     select commits, gen_random_uuid()::text from tendot_counters where id = 1";

/// Deletes the expired commit id; the parameter is the number of retained ids.
pub(crate) const DELETE_OLD_COMMIT_ID: &str = "delete from tendot_commits where number = \
     (select commits - $1::bigint from tendot_counters where id = 1)";

/// Returns the first missing privilege.
pub(crate) const SELECT_MISSING_PRIVILEGE: &str = "select n.privilege || ' on ' || n.name from (values \
     (1, 'tendot_records', 'select'), (2, 'tendot_records', 'insert'), (3, 'tendot_records', 'update'), \
     (4, 'tendot_records', 'delete'), (5, 'tendot_log', 'select'), (6, 'tendot_log', 'insert'), \
     (7, 'tendot_history', 'select'), (8, 'tendot_history', 'insert'), (9, 'tendot_homed', 'select'), \
     (10, 'tendot_homed', 'insert'), (11, 'tendot_homed', 'delete'), (12, 'tendot_aux', 'select'), \
     (13, 'tendot_aux', 'insert'), (14, 'tendot_aux', 'update'), (15, 'tendot_aux', 'delete'), \
     (16, 'tendot_counters', 'update'), (17, 'tendot_commits', 'select'), (18, 'tendot_commits', 'insert'), \
     (19, 'tendot_commits', 'delete'), (20, 'tendot_migration', 'select')) n (number, name, privilege) \
     where not has_table_privilege(n.name, n.privilege) order by n.number limit 1";

pub(crate) const SELECT_COMMIT_ID: &str = "select commit_id from tendot_commits where number = $1";
