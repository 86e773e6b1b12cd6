-- Records that an import made have no history until they are changed: the line that made them is found by their revision.
create index if not exists tendot_log_imports on tendot_log (revision) where kind = 7;

-- Between which keys the records of an import are, so that its names are found without looking at all.
alter table tendot_log add column if not exists first_key bytea;
alter table tendot_log add column if not exists last_key bytea;
