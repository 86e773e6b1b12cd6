-- Highest timeline that any server has seen, as `SYSTEM/NUMBER`: a primary with a lower one was superseded by a promotion. Written
-- by servers, also into a superseded primary, so that servers that see no other host refuse it, too.
alter table tendot_counters add column if not exists timeline text;

-- Time of the last log entry: later ones are never earlier. Null in an empty log.
alter table tendot_counters add column if not exists timestamp_ms bigint;
update tendot_counters set timestamp_ms = (select timestamp_ms from tendot_log order by sequence desc limit 1)
    where id = 1 and timestamp_ms is null;
