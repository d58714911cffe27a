-- name: refusals --
-- Commands without events whose position or time is impossible.
select c.command_id, c.last_position, c.recorded_at, e.recorded_at, n.recorded_at
from icecore.commands c
left join icecore.events e on e.notification_id = c.last_position
left join icecore.events n on n.notification_id = c.last_position + 1
where c.first_position is null
  and (c.last_position < 0 or (c.last_position > 0 and e.notification_id is null)
       or c.recorded_at < e.recorded_at or c.recorded_at > n.recorded_at)
order by c.command_id

-- name: idempotency --
-- Keys that differ from their command, name a version that the log did not have then, name another version than the command's last (for a
-- drop, the one before), or have a wrong hash. The key of the request that creates a project is of the project of that request. The hash is that of icecore.idempotency_hash, for which infinity is not a number. A refusal
-- has no events except those of the proposal that it opens.
select i.project_id, i.actor, i.key, i.command_id, i.position, i.recorded_at, i.object_id, i.version, i.status,
       c.last_position, c.recorded_at, e.actor, case when e.topic <> 'project.created.v1' then e.project_id end, o.originator_version,
       c.first_position is not null and not starts_with(e.topic, 'proposal.'), i.keys, own.version, i.expected_hash, i.hash
from (
  select i.*, count(*) over (partition by i.command_id) as keys,
         sha256(coalesce(h.hash, decode(repeat('00', 32), 'hex')) || convert_to(jsonb_build_array(
           i.project_id, i.actor, i.key, i.command_id, encode(i.request_hash, 'hex'), i.operation, i.status, i.object_id, i.version,
           i.position, encode(sha256(i.body), 'hex'), trim_scale(extract(epoch from i.recorded_at) * 1000000))::text, 'UTF8')) as expected_hash
  from icecore.idempotency i left join icecore.events h on h.notification_id = i.position
) i
left join icecore.commands c on c.command_id = i.command_id
left join icecore.events e on e.notification_id = c.first_position
left join icecore.events o on o.originator_id = i.object_id and o.originator_version = i.version
  and o.notification_id <= i.position
left join lateral (
  select x.originator_version - case when i.operation = 'unregisterTable' then 1 else 0 end as version from icecore.events x
  where c.first_position is not null and x.originator_id = i.object_id and x.notification_id between c.first_position and c.last_position
  order by x.notification_id desc limit 1) own on true
where c.command_id is null or c.last_position <> i.position or c.recorded_at <> i.recorded_at
   or e.actor <> i.actor or (e.project_id <> i.project_id and e.topic <> 'project.created.v1')
   or (i.object_id is null) <> (i.version is null) or (i.object_id is not null and o.originator_id is null)
   or i.status not between 200 and 499
   or (i.status >= 400 and c.first_position is not null and not starts_with(e.topic, 'proposal.')) or i.keys > 1
   or own.version <> i.version or i.expected_hash <> i.hash
order by i.project_id, i.actor, i.key

-- name: secrets --
-- References of warehouses that exist to secrets that are missing or destroyed.
select w.warehouse_id, w.version, w.secret_ref, s.destroyed_at
from (
  select distinct on (warehouse_id) * from icecore.warehouses where generation = %(generation)s order by warehouse_id, version desc
) w
left join icecore.secrets s on s.id = w.secret_ref and s.project_id = w.project_id
where w.status <> 'deleted' and w.secret_ref is not null and (s.id is null or s.destroyed_at is not null)
order by w.warehouse_id

-- name: sinks --
-- Positions of sinks, skips and replays that are not in the log, and skips of another event than the one at their position.
select * from (
  select 'sinks', 'name ' || name, 'position', position from icecore.sinks
  union all select 'sinks', 'name ' || name, 'blocked_position', blocked_position from icecore.sinks
  union all select 'sinks', 'name ' || name, 'lost_position', lost_position from icecore.sinks
  union all select 'sink_replays', 'replay_id ' || replay_id, 'to_position', to_position from icecore.sink_replays
  union all select 'sink_replays', 'replay_id ' || replay_id, 'replayed_position', replayed_position from icecore.sink_replays
  union all select 'sink_skips', 'sink ' || sink || ', position ' || position, 'position', position from icecore.sink_skips
) named ("table", key, "column", position)
where position > %(head)s or position < 0 order by 1, 2, 3

-- name: skips --
select 'sink ' || k.sink || ', position ' || k.position, e.event_id, k.event_id
from icecore.sink_skips k join icecore.events e on e.notification_id = k.position
where e.event_id <> k.event_id order by 1

-- name: old_metadata_files --
-- Rows whose file is not that of their key (compared without scheme and bucket), whose file name is not that of a metadata file, or whose
-- key is in no location that their table has claimed.
select x.key, x.location, p.matches, p.is_metadata
from icecore.old_metadata_files x
cross join lateral (select rtrim(regexp_replace(x.location, '^[a-z0-9]+:(//[^/]*)?', ''), '/') || '/') l (path)
cross join lateral (select right(x.key, length(l.path)) = l.path, x.key ~ '\.metadata\.json(\.gz)?/$') p (matches, is_metadata)
where x.key <> '' and not (p.matches and p.is_metadata and exists (
  select from icecore.tables t
  where t.generation = (select generation from icecore.read_models) and t.table_id = x.table_id and t.warehouse_id = x.warehouse_id
    and t.locations && array(select left(x.key, i) from generate_series(1, length(x.key) - 1) i where substr(x.key, i, 1) = '/')))
order by x.key
