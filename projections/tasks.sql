-- name: page --
-- The newest tasks before one position and after another: of these queues and states, of these objects, or with these ids; the others are empty.
-- With the times of the events that began and ended them, and the newest version of their own streams.
with chosen as (
  select t.* from unnest(%(queues)s::text[]) q(queue)
  cross join unnest(%(statuses)s::text[]) s(status)
  cross join lateral (
    select * from icecore.tasks x
    where x.generation = (select generation from icecore.read_models) and x.warehouse_id = %(warehouse_id)s and x.queue = q.queue
      and x.status = s.status and x.from_position < %(before)s and x.from_position > %(after)s and x.task_id <> all (%(without)s::uuid[])
    order by x.from_position desc limit %(size)s
  ) t
  union all
  select t.* from unnest(%(kinds)s::text[], %(objects)s::uuid[]) o(kind, id)
  cross join lateral (
    select * from icecore.tasks x
    where x.generation = (select generation from icecore.read_models) and x.object_id = o.id and x.kind = o.kind
      and x.warehouse_id = %(warehouse_id)s and x.queue = any (%(object_queues)s::text[]) and x.status = any (%(object_statuses)s::text[])
      and x.from_position < %(before)s and x.from_position > %(after)s and x.task_id <> all (%(without)s::uuid[])
    order by x.from_position desc limit %(size)s
  ) t
  union all
  select x.* from icecore.tasks x
  where x.generation = (select generation from icecore.read_models) and x.task_id = any (%(ids)s::uuid[]) and x.warehouse_id = %(warehouse_id)s
    and (cardinality(%(objects)s::uuid[]) = 0
         or exists (select 1 from unnest(%(kinds)s::text[], %(objects)s::uuid[]) o(kind, id) where o.kind = x.kind and o.id = x.object_id))
    and x.from_position < %(before)s and x.from_position > %(after)s
)
select t.task_id, t.warehouse_id, t.queue, t.kind, t.object_id, t.namespace_id, t.name, t.parent_task_id, t.scheduled_for_ms, t.status, t.from_position,
       created.recorded_at, ended.recorded_at, v.scheduled_for_ms, coalesce(v.begun, false), coalesce(v.attempts, 0), v.started_at_ms, v.recorded_at
from (select * from chosen order by from_position desc limit %(size)s) t
join icecore.events created on created.notification_id = t.from_position
left join icecore.events ended on ended.notification_id = t.to_position
left join lateral (
  select v.scheduled_for_ms, v.begun, v.attempts, v.started_at_ms, e.recorded_at from icecore.task_versions v
  join icecore.events e on e.notification_id = v.position
  where v.generation = t.generation and v.task_id = t.task_id
  order by v.version desc limit 1
) v on true
order by t.from_position desc

-- name: of_warehouse --
-- What is needed to decide on tasks.
select task_id, queue, kind, object_id, status from icecore.tasks
where generation = (select generation from icecore.read_models) and task_id = any (%(ids)s::uuid[]) and warehouse_id = %(warehouse_id)s

-- name: unfinished_of --
select task_id, queue, kind, object_id, status from icecore.tasks
where generation = (select generation from icecore.read_models) and object_id = %(object_id)s and to_position is null

-- name: states --
-- The newest versions of tasks' own streams, with their generation.
select v.task_id, v.version, v.event_id, v.warehouse_id, v.scheduled_for_ms, v.begun, v.attempts, v.generation
from icecore.read_models r
cross join unnest(%(ids)s::uuid[]) t(id)
cross join lateral (
  select * from icecore.task_versions v where v.generation = r.generation and v.task_id = t.id order by v.version desc limit 1
) v

-- name: attempts --
-- The last recorded attempts of a task that failed.
select attempts, started_at_ms, failed_at_ms, error from icecore.task_versions
where generation = (select generation from icecore.read_models) and task_id = %(task_id)s and event = 'attempt-failed'
order by version desc limit %(limit)s

-- name: controls --
-- The control requests after a position.
select position, task_id, event from icecore.task_versions
where generation = (select generation from icecore.read_models) and position > %(after)s and event in ('scheduled', 'stopped')
order by position

-- name: next_purge --
-- The unfinished purge that was requested first and is not scheduled for later, with the number of its last recorded attempt.
select t.object_id, t.warehouse_id, t.task_id, coalesce(v.attempts, 0) from icecore.tasks t
left join lateral (
  select v.scheduled_for_ms, v.attempts from icecore.task_versions v
  where v.generation = t.generation and v.task_id = t.task_id
  order by v.version desc limit 1
) v on true
where t.generation = (select generation from icecore.read_models) and t.queue = 'tabular_purge' and t.to_position is null
  and t.task_id <> all (%(without)s::uuid[]) and t.warehouse_id <> all (%(without_warehouses)s::uuid[])
  and coalesce(v.scheduled_for_ms, 0) <= %(now_ms)s
order by t.from_position limit 1
