-- Names and other binary data are bytea: compared byte by byte, independent of locale and encoding.

create table if not exists tendot_records (
    name_key bytea primary key,
    name bytea not null,
    revision bigint not null,
    status smallint not null,
    body bytea not null,
    registration bytea not null
);

create table if not exists tendot_log (
    sequence bigint primary key,
    revision bigint not null,
    timestamp_ms bigint not null,
    author bytea not null,
    kind smallint not null,
    name bytea not null,
    record_count bigint not null,
    -- Audit chain: hash of the entry before, and digest of this entry's content.
    previous_hash bytea not null,
    content_digest bytea not null,
    -- Key range of an import, so that its names are found without a full scan.
    first_key bytea,
    last_key bytea
);

-- Records created by an import have no history row until they change; the index finds the import by revision.
create index if not exists tendot_log_imports on tendot_log (revision) where kind = 7;

-- Prior state of a log entry; a null name means that there was no record.
create table if not exists tendot_history (
    name_key bytea not null,
    sequence bigint not null,
    name bytea,
    revision bigint,
    status smallint,
    body bytea,
    registration bytea,
    primary key (name_key, sequence)
);

create table if not exists tendot_homed (
    name_key bytea primary key
);

create table if not exists tendot_aux (
    aux_key bytea primary key,
    value bytea not null
);

-- Single row; every write transaction locks it first.
create table if not exists tendot_counters (
    id smallint primary key,
    revision bigint not null,
    sequence bigint not null,
    -- Hash of the last log entry.
    log_hash bytea not null,
    commits bigint not null
);

insert into tendot_counters (id, revision, sequence, log_hash, commits)
    values (1, 0, 0, decode(repeat('00', 32), 'hex'), 0) on conflict (id) do nothing;

-- Recent commit ids, to resolve transactions in doubt.
create table if not exists tendot_commits (
    number bigint primary key,
    commit_id text not null
);

-- Single row: checkpoint of a migration into this store; while incomplete, the store cannot be opened.
create table if not exists tendot_migration (
    id smallint primary key,
    checkpoint bytea not null,
    -- Value of tendot_counters.commits when this was written; if it differs now, another writer has modified the store.
    commits bigint not null
);
