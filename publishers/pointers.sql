-- name: tables --
-- The tables of events as each left them and as each found them: by the whole primary key, so that a table's length costs nothing.
-- What a head was before matters only where all of it is replaced.
select e.notification_id, after.*, before.namespace_id, before.name, before.metadata_location,
       case when e.topic like 'table.overwritten.%%' then before.head end
from icecore.events e
cross join lateral (
  select namespace_id, name, metadata_location, head from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = e.originator_id and version = e.originator_version
  offset 0
) after
left join lateral (
  select namespace_id, name, metadata_location, head from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = e.originator_id and version = e.originator_version - 1
  offset 0
) before on true
where e.notification_id = any(%(positions)s)

-- name: views --
select e.notification_id, after.*, before.namespace_id, before.name, before.metadata_location, null
from icecore.events e
cross join lateral (
  select namespace_id, name, metadata_location, document from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = e.originator_id and version = e.originator_version
  offset 0
) after
left join lateral (
  select namespace_id, name, metadata_location from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = e.originator_id and version = e.originator_version - 1
  offset 0
) before on true
where e.notification_id = any(%(positions)s)

-- name: snapshots --
-- Snapshots that were in a table before the version that made them the current one: their sizes, and as many of them as `bytes_max` and one more.
select number - 1, size, case when before <= %(bytes_max)s::bigint then body end
from (
  select r.number, p.body, octet_length(p.body)::bigint as size, (sum(octet_length(p.body)) over (order by r.number) - octet_length(p.body))::bigint as before
  from unnest(%(ids)s::uuid[], %(versions)s::bigint[], %(snapshot_ids)s::bigint[]) with ordinality r(id, version, snapshot_id, number)
  cross join lateral (
    select body from icecore.table_parts p
    where p.generation = (select generation from icecore.read_models) and p.table_id = r.id and p.kind = %(kind)s
      and p.snapshot_id = r.snapshot_id and p.valid_from <= r.version
    order by p.valid_from desc limit 1
  ) p
) each

-- name: paths --
-- The names that led to objects as of positions, outermost first: the warehouse, namespaces, the object itself.
-- A name that ended at the position still counts: the event that ended it is the one being told.
with recursive g as (select generation from icecore.read_models),
up(number, depth, position, kind, object_id, parent_id, name) as (
  select r.number, 0, r.position, n.kind, r.id, n.parent_id, n.name
  from unnest(%(ids)s::uuid[], %(positions)s::bigint[]) with ordinality r(id, position, number)
  cross join lateral (
    select n.kind, n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from g) and n.object_id = r.id and n.from_position <= r.position
    order by n.from_position desc limit 1
  ) n
  union all
  select up.number, up.depth + 1, up.position, above.kind, up.parent_id, above.parent_id, above.name
  from up cross join lateral (
    select n.kind, n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from g) and n.object_id = up.parent_id and n.from_position <= up.position
    order by n.from_position desc limit 1
  ) above
  where up.kind <> 'warehouse'
)
select number, array_agg(object_id order by depth desc), array_agg(name order by depth desc) from up group by number
