-- One row, if another store was ever moved here: how far that has come. While it is not whole, nobody else may use it.
create table if not exists tendot_moving (
    id smallint primary key,
    mark bytea not null,
    -- The last of tendot_counters.commits when this was written: if that is another now, somebody else wrote since.
    commits bigint not null
);
