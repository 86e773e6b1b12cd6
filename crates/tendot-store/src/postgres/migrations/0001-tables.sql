-- Names, and whatever else may have any bytes in it, are bytea: compared byte by byte, whatever the database's locale and
-- encoding are.

create table if not exists tendot_records (
    name_key bytea primary key,
    name bytea not null,
    revision bigint not null,
    state smallint not null,
    body bytea not null,
    registration bytea not null
);

create table if not exists tendot_log (
    sequence bigint primary key,
    revision bigint not null,
    made_at bigint not null,
    made_by bytea not null,
    kind smallint not null,
    name bytea not null,
    records bigint not null
);

-- What was there before a line of the log; nothing was if there is no name.
create table if not exists tendot_history (
    name_key bytea not null,
    sequence bigint not null,
    name bytea,
    revision bigint,
    state smallint,
    body bytea,
    registration bytea,
    primary key (name_key, sequence)
);

create table if not exists tendot_homed (
    name_key bytea primary key
);

create table if not exists tendot_notes (
    note_key bytea primary key,
    body bytea not null
);

-- One row, which every transaction that writes locks before it does anything else.
create table if not exists tendot_counters (
    id smallint primary key,
    revision bigint not null,
    sequence bigint not null,
    commits bigint not null
);

insert into tendot_counters (id, revision, sequence, commits) values (1, 0, 0, 0) on conflict (id) do nothing;

-- The last transactions, so that one whose end was not heard of can be told.
create table if not exists tendot_commits (
    number bigint primary key,
    id text not null
);
