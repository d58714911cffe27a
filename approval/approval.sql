-- name: levels --
-- The names that lead to a namespace, outermost first; of a dropped one, its last.
with recursive g as (select generation from icecore.read_models),
up(depth, parent_id, name) as (
  (select 0, n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from g) and n.object_id = %(namespace_id)s and n.kind = 'namespace'
    order by n.from_position desc limit 1)
  union all
  select up.depth + 1, above.parent_id, above.name
  from up cross join lateral (
    select n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from g) and n.object_id = up.parent_id and n.kind = 'namespace'
    order by n.from_position desc limit 1
  ) above
)
select array_agg(name order by depth desc) from up

-- name: declared --
-- The namespaces on a path, outermost first, with their newest events and their properties.
with recursive path(depth, id) as (
  select 0, %(warehouse_id)s::uuid
  union all
  select p.depth + 1, n.object_id
  from path p
  -- Laterally, and one row at most: no plan may read all names of a kind.
  cross join lateral (
    select n.object_id from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = p.id and n.kind = 'namespace'
      and n.name_key = (%(keys)s::text[])[p.depth + 1] and n.to_position is null
    limit 1
  ) n
  where p.depth < cardinality(%(keys)s::text[])
)
select p.id, n.event_id, n.properties
from path p
cross join lateral (
  select event_id, properties from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = p.id
  order by version desc limit 1
) n
where p.depth > 0 order by p.depth
