-- name: of_warehouse --
-- A page of what is soft-deleted in a warehouse, in the order of ids, with the times of the creation and of the drop, and whether it is purged.
select s.object_id, s.kind, s.name, s.namespace_id, s.expires_at_ms, dropped.recorded_at, created.recorded_at, coalesce(t.purges, false)
from (
  select * from icecore.soft_deleted
  where generation = (select generation from icecore.read_models) and warehouse_id = %(parent_id)s and to_position is null and kind = any (%(kinds)s::text[])
    and object_id > %(after)s
  order by object_id limit %(size)s
) s
join icecore.events dropped on dropped.notification_id = s.from_position
join icecore.events created on created.originator_id = s.object_id and created.originator_version = 1
left join lateral (
  select x.purges from icecore.tables x
  where x.generation = (select generation from icecore.read_models) and x.table_id = s.object_id and s.kind = 'table' order by x.version desc limit 1
) t on true
order by s.object_id

-- name: of_namespace --
select s.object_id, s.kind, s.name, s.namespace_id, s.expires_at_ms, dropped.recorded_at, created.recorded_at, coalesce(t.purges, false)
from (
  select * from icecore.soft_deleted
  where generation = (select generation from icecore.read_models) and namespace_id = %(parent_id)s and to_position is null and kind = any (%(kinds)s::text[])
    and object_id > %(after)s
  order by object_id limit %(size)s
) s
join icecore.events dropped on dropped.notification_id = s.from_position
join icecore.events created on created.originator_id = s.object_id and created.originator_version = 1
left join lateral (
  select x.purges from icecore.tables x
  where x.generation = (select generation from icecore.read_models) and x.table_id = s.object_id and s.kind = 'table' order by x.version desc limit 1
) t on true
order by s.object_id

-- name: due --
-- What is soft-deleted and due by the earlier of the two clocks, that of the process and that of Postgres.
select s.expires_at_ms, s.object_id, s.kind, s.warehouse_id, c.now_ms
from (select least(%(now_ms)s::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint) as now_ms) c
join icecore.soft_deleted s on s.expires_at_ms <= c.now_ms
where s.generation = (select generation from icecore.read_models) and s.to_position is null
  and (s.expires_at_ms, s.object_id) > (%(after_ms)s, %(after_id)s) and s.warehouse_id <> all (%(without_warehouses)s::uuid[])
  and s.kind = any (%(kinds)s::text[])
  and (s.kind <> 'namespace' or not exists (
    select 1 from icecore.soft_deleted x
    where x.generation = s.generation and x.namespace_id = s.object_id and x.to_position is null))
order by s.expires_at_ms, s.object_id limit %(limit)s

-- name: due_inside --
-- What is soft-deleted and not due itself, but in a namespace that was dropped finally, or below one, in the order of ids. Such a namespace
-- was due when it was dropped.
with recursive ending(object_id, due_id) as (
  select s.object_id, s.object_id from icecore.soft_deleted s
  join icecore.events dropped on dropped.notification_id = s.from_position
    and s.expires_at_ms <= extract(epoch from dropped.recorded_at) * 1000
  where s.generation = (select generation from icecore.read_models) and s.to_position is null and s.kind = 'namespace'
    and s.expires_at_ms <= least(%(now_ms)s::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint)
    and s.warehouse_id <> all (%(without_warehouses)s::uuid[])
  union
  select s.object_id, e.due_id from ending e
  join icecore.soft_deleted s on s.namespace_id = e.object_id
  where s.generation = (select generation from icecore.read_models) and s.to_position is null and s.kind = 'namespace'
)
select s.expires_at_ms, s.object_id, s.kind, s.warehouse_id,
       least(%(now_ms)s::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint), e.due_id
from (select distinct on (object_id) object_id, due_id from ending order by object_id, due_id) e
cross join lateral (
  select x.* from icecore.soft_deleted x
  where x.generation = (select generation from icecore.read_models) and x.namespace_id = e.object_id and x.to_position is null
    and x.object_id > %(after_id)s and x.kind = any (%(kinds)s::text[])
    and x.expires_at_ms > least(%(now_ms)s::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint)
    and (x.kind <> 'namespace' or not exists (
      select 1 from icecore.soft_deleted y
      where y.generation = x.generation and y.namespace_id = x.object_id and y.to_position is null))
  order by x.object_id limit %(limit)s
) s
order by s.object_id limit %(limit)s

-- name: database_now --
select (extract(epoch from clock_timestamp()) * 1000)::bigint

-- name: statuses --
-- The newest status of each of these tables and views, if it is in the warehouse.
select k.kind, k.object_id,
       case k.kind
         when 'table' then (select t.status from icecore.tables t
                            where t.generation = r.generation and t.table_id = k.object_id and t.warehouse_id = %(warehouse_id)s
                            order by t.version desc limit 1)
         else (select v.status from icecore.views v
               where v.generation = r.generation and v.view_id = k.object_id and v.warehouse_id = %(warehouse_id)s
               order by v.version desc limit 1)
       end
from icecore.read_models r, unnest(%(kinds)s::text[], %(ids)s::uuid[]) k (kind, object_id)
