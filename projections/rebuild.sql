-- name: generation --
select generation from icecore.read_models

-- name: switch --
update icecore.read_models set generation = %(generation)s where generation = %(generation)s - 1

-- name: commit_without_waiting --
-- Only for the copy. A crash that loses copied rows also ends this session and those of the helpers, so there is no switch. The switch
-- commits in this session after the whole copy and waits for the disk.
set synchronous_commit = off

-- name: commit_as_configured --
reset synchronous_commit

-- name: begin_snapshot --
begin isolation level repeatable read read only

-- name: export_snapshot --
select pg_export_snapshot()

-- name: take_snapshot --
set transaction snapshot %(snapshot)s

-- name: boundaries --
-- The ids of the streams at these fractions of the events, estimated from a sample.
select percentile_disc(%(shares)s::float8[]) within group (order by originator_id)
from icecore.events tablesample system (%(percent)s::float8)

-- name: head --
select coalesce(max(notification_id), 0) from icecore.events

-- name: streams --
-- The events of a range of streams, stream by stream. The first event of a stream has its project and warehouse.
select originator_id, originator_version, notification_id, event_id, topic, state,
       case when originator_version = 1 then project_id end, case when originator_version = 1 then warehouse_id end
from icecore.events where originator_id between %(first)s and %(last)s order by originator_id, originator_version

-- name: stream --
-- The events of one stream up to a position.
select originator_id, originator_version, notification_id, event_id, topic, state, project_id, warehouse_id
from icecore.events where originator_id = %(stream_id)s and notification_id <= %(upto)s order by originator_version

-- name: events_after --
-- The next events in the order of the log, limited in number and, after the first, in bytes.
select originator_id, originator_version, notification_id, event_id, topic, state, project_id, warehouse_id
from (
  select e.*, sum(octet_length(e.state)) over (order by e.notification_id) as bytes, row_number() over (order by e.notification_id) as row
  from (select * from icecore.events where notification_id > %(after)s order by notification_id limit %(limit)s) e
) e
where e.row = 1 or e.bytes <= %(bytes_max)s
order by notification_id

-- name: write_rows --
select icecore.write_rows(%(rows)s::text::jsonb, %(blobs)b::bytea[], %(generation)s, %(before)s)

-- name: analyze_coarsely --
-- A small sample is enough for the first plans on the new generation. Autovacuum analyzes the tables after the old generation is deleted.
set default_statistics_target = 10

-- name: analyze --
-- Only the columns of keys. Bodies and heads would take most of the time and are in no condition. Tables that autovacuum is processing are skipped.
analyze (skip_locked) icecore.names, icecore.projects, icecore.warehouses, icecore.namespaces, icecore.part_tombstones, icecore.soft_deleted,
  icecore.tasks, icecore.task_versions,
  icecore.tables (generation, table_id, version, position, status),
  icecore.table_parts (generation, table_id, kind, ordinal, valid_from, valid_to, snapshot_id),
  icecore.views (generation, view_id, version, position),
  icecore.proposals (generation, proposal_id, version, position, warehouse_id, status, command_key)

-- name: copy --
copy {table} (generation, {columns}) from stdin (format binary)

-- name: has_later --
-- Whether there are rows of a later generation than the current one, by the last entry of the primary key.
select max(generation) > %(served)s from {table}

-- name: pages --
select pg_relation_size(%(table)s::text::regclass) / current_setting('block_size')::bigint

-- name: delete --
delete from {table}
where ctid >= format('(%%s,0)', %(first)s::bigint)::tid and ctid < format('(%%s,0)', %(end)s::bigint)::tid and generation <> %(kept)s
