-- Highest timeline that any server has seen, as `SYSTEM/NUMBER`: a primary with a lower one was superseded by a promotion. Written
-- by servers, also into a superseded primary, so that servers that see no other host refuse it, too.
alter table tendot_counters add column if not exists timeline text;

-- Time of the last log entry: later ones are never earlier. Null before the first commit of a version that writes it.
alter table tendot_counters add column if not exists timestamp_ms bigint;
