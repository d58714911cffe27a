-- name: find_now --
-- The namespace at a path of name keys below a warehouse, and what a name in it stands for.
with recursive g as (select generation from icecore.read_models),
path(depth, id) as (
  select 0, %(warehouse_id)s::uuid
  union all
  select p.depth + 1, n.object_id
  from path p, icecore.names n
  where p.depth < cardinality(%(keys)s::text[])
    and n.generation = (select generation from g) and n.parent_id = p.id and n.kind = 'namespace'
    and n.name_key = (%(keys)s::text[])[p.depth + 1] and n.to_position is null
)
select p.id, n.object_id, n.kind
from (select id from path where depth = cardinality(%(keys)s::text[])) p
left join icecore.names n on n.generation = (select generation from g) and n.parent_id = p.id and n.kind in ('table', 'view')
  and n.name_key = %(name_key)s and n.to_position is null

-- name: find_then --
with recursive g as (select generation from icecore.read_models),
path(depth, id) as (
  select 0, %(warehouse_id)s::uuid
  union all
  select p.depth + 1, n.object_id
  from path p, icecore.names n
  where p.depth < cardinality(%(keys)s::text[])
    and n.generation = (select generation from g) and n.parent_id = p.id and n.kind = 'namespace'
    and n.name_key = (%(keys)s::text[])[p.depth + 1]
    and n.from_position <= %(as_of)s and (n.to_position is null or n.to_position > %(as_of)s)
)
select p.id, n.object_id, n.kind
from (select id from path where depth = cardinality(%(keys)s::text[])) p
left join icecore.names n on n.generation = (select generation from g) and n.parent_id = p.id and n.kind in ('table', 'view')
  and n.name_key = %(name_key)s and n.from_position <= %(as_of)s and (n.to_position is null or n.to_position > %(as_of)s)

-- name: list_now --
select name, name_key from icecore.names
where generation = (select generation from icecore.read_models) and parent_id = %(parent_id)s and kind = %(kind)s
  and name_key > %(after)s and to_position is null
order by name_key limit %(size)s

-- name: list_then --
select name, name_key from icecore.names
where generation = (select generation from icecore.read_models) and parent_id = %(parent_id)s and kind = %(kind)s
  and name_key > %(after)s and from_position <= %(as_of)s and (to_position is null or to_position > %(as_of)s)
order by name_key limit %(size)s
