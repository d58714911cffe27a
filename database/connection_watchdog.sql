-- name: sessions --
-- The sessions in use, and the transaction that holds the append lock exclusively (migrations/functions/append.sql). Reads by time share
-- the lock briefly and are not included (log/positions.py).
with append_lock as (
  select l.pid, l.granted, l.virtualtransaction from pg_catalog.pg_locks l
    where l.mode = 'ExclusiveLock' and l.locktype = 'advisory' and l.objsubid = 1
      and (l.classid::bigint << 32 | l.objid::bigint) = %(append_lock)s
      and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
)
select a.pid, a.state = 'idle', a.state_change, exists (select from append_lock l where l.pid = a.pid and not l.granted),
  (select l.virtualtransaction from append_lock l where l.granted),
  pg_catalog.current_setting('synchronous_standby_names') <> ''
from pg_catalog.pg_stat_activity a where a.pid = any(%(process_ids)s)

-- name: terminate --
-- A frozen session ends as soon as it runs again, before it does anything else.
select pg_catalog.pg_terminate_backend(a.pid) from pg_catalog.pg_stat_activity a
where a.pid = any(%(process_ids)s) and a.usename = current_user and a.application_name like 'icecore-%%'

-- name: responds --
select true
