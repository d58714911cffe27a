-- name: begin --
insert into icecore.task_runs (task_id, leader, attempt) values (%(task_id)s, pg_backend_pid(), %(attempt)s)
on conflict (task_id) do update
  set leader = excluded.leader, attempt = excluded.attempt, started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at

-- name: beat --
update icecore.task_runs set heartbeat_at = clock_timestamp() where task_id = any (%(ids)s::uuid[]) and leader = pg_backend_pid()

-- name: end --
delete from icecore.task_runs where task_id = %(task_id)s

-- name: end_all --
delete from icecore.task_runs

-- name: all --
-- The attempts whose leader still holds the lock. A run is being stopped if that was ordered after it began.
select r.task_id, r.attempt, r.started_at, r.heartbeat_at, exists (
         select 1 from icecore.task_versions v join icecore.events e on e.notification_id = v.position
         where v.generation = (select generation from icecore.read_models) and v.task_id = r.task_id and v.event = 'stopped'
           and e.recorded_at >= r.started_at)
from icecore.task_runs r
where exists (
  select 1 from pg_locks l
  where l.locktype = 'advisory' and l.pid = r.leader and l.granted and l.objsubid = 1
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and (l.classid::bigint << 32) | l.objid::bigint = %(lock)s::bigint)
