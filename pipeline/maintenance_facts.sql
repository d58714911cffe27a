-- name: tables --
-- The existing tables that are not soft-deleted, with what their commits add up to. Spark SQL.
with finished as (
  select get_json_object(data, '$.table-id') as table_id, get_json_object(data, '$.procedure') as procedure, max(position) as position
  from icecore.log.events
  where kind = 'maintenance' and type = 'maintenance.finished' and get_json_object(data, '$.outcome') = 'success'
  group by 1, 2
),
rewritten as (select table_id, position from finished where procedure = 'rewrite_data_files'),
merged as (select table_id, position from finished where procedure = 'rewrite_manifests'),
changed_properties as (
  select table_id, position, key, value from icecore.log.table_changes lateral view explode(properties_set) s as key, value
  union all
  select table_id, position, key, cast(null as string) from icecore.log.table_changes lateral view explode(properties_removed) r as key
),
last_properties as (
  select table_id, key, max_by(value, position) as value from changed_properties
  where key like 'icecore.maintenance.%' or key like 'history.expire.%' or key in ('gc.enabled', 'write.target-file-size-bytes', 'write.delete.granularity')
  group by table_id, key
),
properties as (
  select table_id, map_from_entries(collect_list(struct(key, value))) as properties
  from last_properties where value is not null group by table_id
),
protection as (
  select stream_id as table_id, max_by(get_json_object(data, '$.protected'), position) = 'true' as protected
  from icecore.log.events where kind = 'table' and type = 'table.protection-changed' group by stream_id
),
commits as (
  select c.table_id,
    max_by(total_data_files, c.position) filter (where total_data_files is not null) as data_files,
    max_by(total_bytes, c.position) filter (where total_data_files is not null) as data_bytes,
    -- No summary has their total. The total of all delete files bounds what is left of snapshots that were rolled back.
    least(try_subtract(try_sum(added_position_delete_files), try_sum(removed_position_delete_files)),
      max_by(total_delete_files, c.position) filter (where total_delete_files is not null)) as position_delete_files,
    try_sum(if(c.position > coalesce(r.position, 0), added_data_files, 0)) as new_files,
    try_sum(if(c.position > coalesce(r.position, 0), added_bytes, 0)) as new_bytes,
    count_if(snapshots_added > 0 and c.position > coalesce(m.position, 0)) as new_manifests,
    sum(if(unix_millis(recorded_at) < try_subtract({now_ms}L, coalesce(
      try_cast(p.properties['history.expire.max-snapshot-age-ms'] as bigint), {snapshot_max_age_ms}L)), snapshots_added, 0)) - sum(snapshots_removed) as old_snapshots,
    sum(snapshots_added) - sum(snapshots_removed) as snapshots,
    min(recorded_at) as first_commit_at,
    max(recorded_at) as last_commit_at,
    collect_list(if(unix_millis(recorded_at) > {now_ms} - 14L * 24 * 3600 * 1000, hour(recorded_at), null)) as hours
  from icecore.log.table_commits c
  left join rewritten r on r.table_id = c.table_id
  left join merged m on m.table_id = c.table_id
  left join properties p on p.table_id = c.table_id
  group by c.table_id
)
select o.object_id, o.warehouse_id, o.namespace_id, o.path, p.properties, t.protected, c.*
from icecore.log.objects o
left join commits c on c.table_id = o.object_id
left join properties p on p.table_id = o.object_id
left join protection t on t.table_id = o.object_id
where o.kind = 'table' and o.status = 'live' and o.to_position is null

-- name: past --
-- Runs of maintenance, newest first, with their estimates. A run without an outcome is going on, or its job was killed.
select p.table_id, p.procedure, coalesce(f.recorded_at, p.recorded_at) as recorded_at, coalesce(f.outcome, 'unfinished') as outcome,
  f.measured, p.estimate
from (
  select stream_id, recorded_at, position, get_json_object(data, '$.table-id') as table_id,
    get_json_object(data, '$.procedure') as procedure, get_json_object(data, '$.estimate') as estimate
  from icecore.log.events
  where kind = 'maintenance' and type = 'maintenance.planned' and recorded_at > timestamp_millis({since_ms})
    and get_json_object(data, '$.shadow') = 'false'
) p
left join (
  select stream_id, recorded_at, position, get_json_object(data, '$.outcome') as outcome, get_json_object(data, '$.measured') as measured
  from icecore.log.events
  where kind = 'maintenance' and type = 'maintenance.finished' and recorded_at > timestamp_millis({since_ms})
) f on f.stream_id = p.stream_id
order by coalesce(f.position, p.position) desc
