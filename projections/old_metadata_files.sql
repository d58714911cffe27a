-- name: is_pending --
select 1 from icecore.old_metadata_files where key = %(key)s

-- name: warehouses --
-- The row with no key is there for the planner (migrations/0013_functions.sql).
select distinct warehouse_id from icecore.old_metadata_files where key <> '' and warehouse_id <> all (%(without)s::uuid[])

-- name: pending --
select key, table_id, location from icecore.old_metadata_files where warehouse_id = %(warehouse_id)s order by key limit %(limit)s

-- name: remove --
delete from icecore.old_metadata_files where key = any (%(keys)s::text[])
