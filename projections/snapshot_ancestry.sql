-- name: standing --
select version, status, head from icecore.tables
where generation = (select generation from icecore.read_models) and table_id = %(table_id)s
order by version desc limit 1

-- name: added --
-- The table as of the version that added a snapshot.
select t.head
from (
  select generation, table_id, min(valid_from) as version from icecore.table_parts
  where generation = (select generation from icecore.read_models) and table_id = %(table_id)s and kind = %(snapshots)s
    and snapshot_id = %(snapshot_id)s
  group by generation, table_id
) p
join icecore.tables t on t.generation = p.generation and t.table_id = p.table_id and t.version = p.version

-- name: logged --
-- The snapshot log names the snapshots that were current. Trimmed entries are still rows.
select distinct (convert_from(body, 'UTF8')::jsonb->>'snapshot-id')::bigint from icecore.table_parts
where generation = (select generation from icecore.read_models) and table_id = %(table_id)s and kind = %(snapshot_log)s

-- name: parents --
select snapshot_id, (convert_from(body, 'UTF8')::jsonb->>'parent-snapshot-id')::bigint from icecore.table_parts
where generation = (select generation from icecore.read_models) and table_id = %(table_id)s and kind = %(snapshots)s
