-- name: is_pending --
select 1 from icecore.old_metadata_files where key = %(key)s

-- name: warehouses --
-- The row with no key is there for the planner (migrations/0013_functions.sql).
select distinct warehouse_id from icecore.old_metadata_files where key <> '' and warehouse_id <> all (%(without)s::uuid[])

-- name: pending --
select key, table_id, location, begun from icecore.old_metadata_files where warehouse_id = %(warehouse_id)s order by key limit %(limit)s

-- name: begin --
update icecore.old_metadata_files set begun = true where key = any (%(keys)s::text[]) returning key

-- name: remove --
delete from icecore.old_metadata_files where key = any (%(deleted)s::text[]) or (key = any (%(kept)s::text[]) and not begun)
