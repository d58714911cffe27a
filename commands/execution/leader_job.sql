-- name: lead --
select pg_try_advisory_lock(%(lock)s)

-- name: stop_leading --
select pg_advisory_unlock(%(lock)s)

-- name: leads --
-- Of this session: a pooler that handed out another one would be found out.
select exists (select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted and objsubid = 1
               and (classid::bigint << 32) | objid::bigint = %(lock)s::bigint)
