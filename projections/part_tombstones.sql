-- name: tombstones --
select generation, table_id, kind, valid_to from icecore.part_tombstones
where generation = (select generation from icecore.read_models) order by table_id, valid_to, kind

-- name: close --
-- Closes the next open parts; returns their number and the last ordinal. It does not wait for the disk, so a crash may open them again.
-- `remove_if_closed` detects this, and the next round closes them.
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
  -- By ctid alone: with the table's key as a further condition, a planner that assumes a small table would scan all its parts.
  where p.ctid = any (array(select ctid from due))
)
select count(*), max(ordinal) from due, set_config('synchronous_commit', 'off', true)

-- name: remove_if_closed --
-- Only if every part is closed. It commits after them and waits for the disk, so a crash cannot restore an open part without its tombstone.
delete from icecore.part_tombstones t
where t.generation = %(generation)s and t.table_id = %(table_id)s and t.kind = %(kind)s and t.valid_to = %(valid_to)s
  and not exists (
    select from icecore.table_parts p
    where p.generation = %(generation)s and p.table_id = %(table_id)s and p.kind = %(kind)s and p.valid_to is null
      and t.ordinals @> p.ordinal)
