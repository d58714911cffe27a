-- name: try_lock --
select pg_try_advisory_lock(%(lock)s)

-- name: lock_session --
select pg_advisory_lock(%(lock)s)

-- name: lock_session_shared --
select pg_advisory_lock_shared(%(lock)s)

-- name: lock_transaction --
select pg_advisory_xact_lock(%(lock)s)

-- name: unlock --
select pg_advisory_unlock(%(lock)s)

-- name: holds --
-- Checks this session, so that a change of the session by a pooler is detected.
select exists (select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted and objsubid = 1
               and (classid::bigint << 32) | objid::bigint = %(lock)s::bigint)

-- name: wait_for_holders --
-- The lock is released at the end of this implicit transaction, without a message from the client.
set local lock_timeout = '2s';
select pg_advisory_xact_lock_shared({lock})
