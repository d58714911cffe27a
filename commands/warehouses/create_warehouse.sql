-- name: begin --
select pg_try_advisory_lock(%(lock)s)

-- name: end --
select pg_advisory_unlock(%(lock)s)
