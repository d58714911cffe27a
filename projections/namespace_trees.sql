-- name: one_moment --
set transaction isolation level repeatable read

-- name: tree --
-- A namespace and what is in it, outer ones first: what is live, and what is soft-deleted, if it is wanted.
with recursive tree(kind, object_id, parent_id, name, deleted) as (
  select 'namespace', %(root_id)s::uuid, null::uuid, '', false
  union all
  select c.kind, c.object_id, t.object_id, c.name, c.deleted
  from tree t
  cross join lateral (
    select n.kind, n.object_id, n.name, false as deleted from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = t.object_id
      and n.kind in ('namespace', 'table', 'view') and n.to_position is null
    union all
    select s.kind, s.object_id, s.name, true from icecore.soft_deleted s
    where s.generation = (select generation from icecore.read_models) and s.namespace_id = t.object_id and s.to_position is null
      and %(with_deleted)s
  ) c
  where t.kind = 'namespace'
)
select kind, object_id, parent_id, name, deleted from tree limit %(limit)s

-- name: last_expiry --
-- When the last of what is soft-deleted in these namespaces expires. A soft-deleted namespace expires no earlier than what is in it.
select max(s.expires_at_ms) from icecore.soft_deleted s
where s.generation = (select generation from icecore.read_models) and s.namespace_id = any (%(namespace_ids)s::uuid[]) and s.to_position is null

-- name: deleted_inside --
-- Some of what is soft-deleted in these namespaces, outer ones first, and the number of all. What is in a soft-deleted namespace follows if it is wanted.
with recursive inside(kind, object_id, parent_id, name) as (
  select s.kind, s.object_id, s.namespace_id, s.name from icecore.soft_deleted s
  where s.generation = (select generation from icecore.read_models) and s.namespace_id = any (%(namespace_ids)s::uuid[]) and s.to_position is null
  union all
  select s.kind, s.object_id, s.namespace_id, s.name
  from inside i
  join icecore.soft_deleted s on s.namespace_id = i.object_id
  where i.kind = 'namespace' and %(inside_deleted)s
    and s.generation = (select generation from icecore.read_models) and s.to_position is null
)
select i.kind, i.object_id, i.parent_id, i.name, coalesce(t.protected, v.protected, n.protected), coalesce(t.purges, false), i.total
from (select i.*, count(*) over () as total, row_number() over () as place from inside i limit %(limit)s) i
left join lateral (
  select x.protected, x.purges from icecore.tables x
  where x.generation = (select generation from icecore.read_models) and x.table_id = i.object_id and i.kind = 'table' order by x.version desc limit 1
) t on true
left join lateral (
  select x.protected from icecore.views x
  where x.generation = (select generation from icecore.read_models) and x.view_id = i.object_id and i.kind = 'view' order by x.version desc limit 1
) v on true
left join lateral (
  select x.protected from icecore.namespaces x
  where x.generation = (select generation from icecore.read_models) and x.namespace_id = i.object_id and i.kind = 'namespace'
  order by x.version desc limit 1
) n on true
order by i.place

-- name: dropped_together --
-- What was dropped by the command of a namespace's event, in the order of the events.
select split_part(x.topic, '.', 1), x.originator_id, x.event_id
from icecore.events d
join icecore.commands c on c.command_id = d.command_id
join icecore.events x on x.notification_id between c.first_position and c.last_position
where d.originator_id = %(namespace_id)s and d.originator_version = %(version)s
  and x.topic in ('table.dropped.v1', 'view.dropped.v1', 'namespace.dropped.v1')
order by x.notification_id

-- name: is_taken --
select exists (
  select 1 from icecore.names n
  where n.generation = (select generation from icecore.read_models) and n.parent_id = %(parent_id)s and n.kind = 'namespace'
    and n.name_key = %(name_key)s and n.to_position is null)

-- name: roots --
-- A page of the soft-deleted namespaces of a warehouse that can be undropped, in the order of ids: the roots of their trees.
select s.object_id, s.kind, s.name, s.namespace_id, s.expires_at_ms, dropped.recorded_at, created.recorded_at
from (
  select s.* from icecore.soft_deleted s
  cross join lateral (
    select n.root_id from icecore.namespaces n
    where n.generation = s.generation and n.namespace_id = s.object_id
    order by n.version desc limit 1
  ) n
  where s.generation = (select generation from icecore.read_models) and s.warehouse_id = %(warehouse_id)s and s.to_position is null
    and s.kind = 'namespace' and s.object_id > %(after)s and n.root_id = s.object_id
  order by s.object_id limit %(size)s
) s
join icecore.events dropped on dropped.notification_id = s.from_position
join icecore.events created on created.originator_id = s.object_id and created.originator_version = 1
order by s.object_id
