-- name: path --
-- The names that led to an object as of a position, outermost first: the warehouse, namespaces, the object itself.
-- A name that ended at the position still counts: the event that ended it is the one being told.
with recursive up(depth, kind, parent_id, name) as (
  (select 0, n.kind, n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.object_id = %(object_id)s and n.from_position <= %(position)s
    order by n.from_position desc limit 1)
  union all
  select up.depth + 1, above.kind, above.parent_id, above.name
  from up cross join lateral (
    select n.kind, n.parent_id, n.name from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.object_id = up.parent_id and n.from_position <= %(position)s
    order by n.from_position desc limit 1
  ) above
  where up.kind <> 'warehouse'
)
select array_agg(name order by depth desc) from up
