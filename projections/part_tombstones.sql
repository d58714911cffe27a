-- name: tombstones --
select generation, table_id, kind, valid_to from icecore.part_tombstones
where generation = (select generation from icecore.read_models) order by table_id, valid_to, kind

-- name: close --
-- The next parts that are still open: how many, and the last ordinal. Without a flush of its own: a crash may open them again. `remove_if_closed`
-- looks for such parts, and they are closed in another round.
with due as materialized (
  select p.ctid, p.ordinal from icecore.table_parts p
  where p.generation = %(generation)s and p.table_id = %(table_id)s and p.kind = %(kind)s and p.valid_to is null
    and p.ordinal > %(after)s
    and (select t.ordinals from icecore.part_tombstones t
         where t.generation = %(generation)s and t.table_id = %(table_id)s and t.kind = %(kind)s and t.valid_to = %(valid_to)s) @> p.ordinal
  order by p.generation, p.table_id, p.kind, p.ordinal limit %(limit)s
),
closed as (
  update icecore.table_parts p set valid_to = %(valid_to)s
  -- By nothing but their places: with the table's key beside them, a planner that takes the table for small looks through all its parts.
  where p.ctid = any (array(select ctid from due))
)
select count(*), max(ordinal) from due, set_config('synchronous_commit', 'off', true)

-- name: remove_if_closed --
-- Where every part is closed: then it commits after they did and waits for the disk, so it is never gone without them.
delete from icecore.part_tombstones t
where t.generation = %(generation)s and t.table_id = %(table_id)s and t.kind = %(kind)s and t.valid_to = %(valid_to)s
  and not exists (
    select from icecore.table_parts p
    where p.generation = %(generation)s and p.table_id = %(table_id)s and p.kind = %(kind)s and p.valid_to is null
      and t.ordinals @> p.ordinal)
