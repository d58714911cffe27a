-- name: is_pending --
select 1 from icecore.old_metadata_files where key = %(key)s

-- name: warehouses --
-- The row with an empty key exists for the planner (migrations/0001_baseline.sql).
select distinct warehouse_id from icecore.old_metadata_files where key <> '' and warehouse_id <> all (%(without)s::uuid[])

-- name: pending --
-- `others`: the file is in a location that another table or view claims. If its deletion has begun, it waits until the location is free.
select x.key, x.table_id, x.location, x.begun, o.others
from icecore.old_metadata_files x
cross join lateral (
  select exists (select from icecore.location_claims l where l.owner <> x.table_id and l.kind = 'tabular' and l.key = any (array(
    select left(x.key, i) from generate_series(1, length(x.key)) i where substr(x.key, i, 1) = '/'))) as others
) o
where x.warehouse_id = %(warehouse_id)s and not (x.begun and o.others) order by x.key limit %(limit)s

-- name: begin --
update icecore.old_metadata_files set begun = true where key = any (%(keys)s::text[]) returning key

-- name: remove --
delete from icecore.old_metadata_files where key = any (%(deleted)s::text[]) or (key = any (%(kept)s::text[]) and not begun)
