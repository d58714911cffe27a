-- name: find --
-- The namespace at a path of name keys below a warehouse, the table or view with a name in it, and the namespace's location; current if
-- `as_of` is null.
-- A name belongs to one object at a time, so only its last row up to `as_of` is read.
with recursive path(depth, id) as (
  select 0, %(warehouse_id)s::uuid
  union all
  select p.depth + 1, n.object_id
  from path p
  -- A lateral join with a limit of one row, so that no plan reads all names of a kind.
  cross join lateral (
    select n.object_id, n.to_position from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = p.id and n.kind = 'namespace'
      and n.name_key = (%(keys)s::text[])[p.depth + 1] and n.from_position <= coalesce(%(as_of)s::bigint, 9223372036854775807)
    order by n.from_position desc limit 1
  ) n
  where n.to_position is null or n.to_position > %(as_of)s
)
select p.id, n.object_id, n.kind, s.location
from (select id from path where depth = cardinality(%(keys)s::text[]) limit 1) p
-- The location is the same in every version.
join icecore.namespaces s
  on s.generation = (select generation from icecore.read_models) and s.namespace_id = p.id and s.version = 1
left join lateral (
  select n.object_id, n.kind, n.to_position from icecore.names n
  where n.generation = (select generation from icecore.read_models) and n.parent_id = p.id and n.kind in ('table', 'view')
    and n.name_key = %(name_key)s and n.from_position <= coalesce(%(as_of)s::bigint, 9223372036854775807)
  order by n.from_position desc limit 1
) n on n.to_position is null or n.to_position > %(as_of)s

-- name: is_deeper --
-- Whether namespaces are nested more than `levels` deep below a namespace, also soft-deleted ones, which may be undropped.
with recursive below(id, depth) as (
  select %(namespace_id)s::uuid, 0
  union all
  select n.object_id, b.depth + 1
  from below b
  -- `offset 0` keeps Postgres from planning one join that reads all names of the kind.
  cross join lateral (
    select n.object_id from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = b.id and n.kind = 'namespace' and n.to_position is null
    union all
    select s.object_id from icecore.soft_deleted s
    where s.generation = (select generation from icecore.read_models) and s.namespace_id = b.id and s.kind = 'namespace' and s.to_position is null
    offset 0
  ) n
  where b.depth <= %(levels)s
)
select exists (select 1 from below where depth > %(levels)s)

-- name: one_moment --
set transaction isolation level repeatable read

-- name: list_current --
select name, name_key from icecore.names
where generation = (select generation from icecore.read_models) and parent_id = %(parent_id)s and kind = %(kind)s
  and name_key > %(after)s and to_position is null
order by name_key limit %(size)s

-- name: list_as_of --
select name, name_key from icecore.names
where generation = (select generation from icecore.read_models) and parent_id = %(parent_id)s and kind = %(kind)s
  and name_key > %(after)s and from_position <= %(as_of)s and (to_position is null or to_position > %(as_of)s)
order by name_key limit %(size)s

-- name: list_objects_current --
-- As list_current, with the id and the protection of each object.
select n.name, n.name_key, n.object_id, p.protected from icecore.names n
cross join lateral (
  (select x.protected from icecore.namespaces x
   where n.kind = 'namespace' and x.generation = n.generation and x.namespace_id = n.object_id
   order by x.version desc limit 1)
  union all
  (select x.protected from icecore.tables x
   where n.kind = 'table' and x.generation = n.generation and x.table_id = n.object_id
   order by x.version desc limit 1)
  union all
  (select x.protected from icecore.views x
   where n.kind = 'view' and x.generation = n.generation and x.view_id = n.object_id
   order by x.version desc limit 1)
) p
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(parent_id)s and n.kind = %(kind)s
  and n.name_key > %(after)s and n.to_position is null
order by n.name_key limit %(size)s

-- name: list_objects_as_of --
select n.name, n.name_key, n.object_id, p.protected from icecore.names n
cross join lateral (
  (select x.protected from icecore.namespaces x
   where n.kind = 'namespace' and x.generation = n.generation and x.namespace_id = n.object_id and x.position <= %(as_of)s
   order by x.version desc limit 1)
  union all
  (select x.protected from icecore.tables x
   where n.kind = 'table' and x.generation = n.generation and x.table_id = n.object_id and x.position <= %(as_of)s
   order by x.version desc limit 1)
  union all
  (select x.protected from icecore.views x
   where n.kind = 'view' and x.generation = n.generation and x.view_id = n.object_id and x.position <= %(as_of)s
   order by x.version desc limit 1)
) p
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(parent_id)s and n.kind = %(kind)s
  and n.name_key > %(after)s and n.from_position <= %(as_of)s and (n.to_position is null or n.to_position > %(as_of)s)
order by n.name_key limit %(size)s

-- name: names_above --
-- The names of objects and of all their parents as of a position (null: the newest), each once. Names that have ended are included, because
-- events of dropped objects are published too.
with recursive above(object_id, kind, parent_id, name) as (
  select s.id, n.kind, n.parent_id, n.name
  from unnest(%(ids)s::uuid[]) s(id)
  cross join lateral (
    select kind, parent_id, name from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = s.id
      and from_position <= coalesce(%(as_of)s::bigint, 9223372036854775807)
    order by from_position desc limit 1
  ) n
  union
  select p.id, n.kind, n.parent_id, n.name
  from (select distinct parent_id from above where kind <> 'warehouse') p(id)
  cross join lateral (
    select kind, parent_id, name from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = p.id
      and from_position <= coalesce(%(as_of)s::bigint, 9223372036854775807)
    order by from_position desc limit 1
  ) n
)
select object_id, case when kind <> 'warehouse' then parent_id end, name from above

-- name: taken --
-- The table or view that has a name in a namespace now.
select n.parent_id, n.object_id, n.kind, '' from icecore.names n
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(namespace_id)s and n.kind in ('table', 'view')
  and n.name_key = %(name_key)s and n.to_position is null

-- name: names_at --
-- The last names of objects and of all their parents up to a position each: with the position of the object's next name, if it has one.
-- Names that have ended are included, because events of dropped objects are published too.
with recursive above(object_id, at, kind, parent_id, name, from_position) as (
  select s.id, s.at, n.kind, n.parent_id, n.name, n.from_position
  from unnest(%(ids)s::uuid[], %(positions)s::bigint[]) s(id, at)
  cross join lateral (
    select kind, parent_id, name, from_position from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = s.id and from_position <= s.at
    order by from_position desc limit 1
  ) n
  union
  select p.id, p.at, n.kind, n.parent_id, n.name, n.from_position
  from (select distinct parent_id, at from above where kind <> 'warehouse') p(id, at)
  cross join lateral (
    select kind, parent_id, name, from_position from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = p.id and from_position <= p.at
    order by from_position desc limit 1
  ) n
)
select object_id, case when kind <> 'warehouse' then parent_id end, name, from_position, (
  select n.from_position from icecore.names n
  where n.generation = (select generation from icecore.read_models) and n.object_id = above.object_id and n.from_position > above.from_position
  order by n.from_position limit 1)
from above

-- name: renamed_parents --
-- Warehouses and namespaces that were renamed or moved after one position and up to another.
select distinct originator_id from icecore.events
where topic in ('warehouse.renamed.v1', 'namespace.moved.v1') and notification_id > %(after)s and notification_id <= %(upto)s

-- name: kind_in_warehouse --
-- The kind of an object, if its path of current names begins in the warehouse.
with recursive above(kind, parent_id) as (
  select kind, parent_id from icecore.names
  where generation = (select generation from icecore.read_models) and object_id = %(object_id)s and to_position is null
  union all
  select a.kind, n.parent_id from above a
  join icecore.names n
    on n.generation = (select generation from icecore.read_models) and n.object_id = a.parent_id and n.to_position is null
  where a.parent_id <> %(warehouse_id)s and n.kind <> 'warehouse'
)
select kind from above where parent_id = %(warehouse_id)s and kind <> 'warehouse'
