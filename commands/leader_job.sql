-- name: lead --
select pg_try_advisory_lock(%(lock)s)

-- name: stop_leading --
select pg_advisory_unlock(%(lock)s)
