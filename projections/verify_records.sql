-- name: secrets --
-- References of warehouses to secrets that are not there, or of which nothing is left.
select w.warehouse_id, w.version, w.secret_ref, s.destroyed_at
from icecore.warehouses w left join icecore.secrets s on s.id = w.secret_ref and s.project_id = w.project_id
where w.generation = %(generation)s and w.secret_ref is not null and (s.id is null or s.destroyed_at is not null)
order by w.warehouse_id, w.version

-- name: sinks --
-- Positions that sinks, skips and replays name and the log does not have, and skips of another event than stands there.
select * from (
  select 'sinks', 'name ' || name, 'position', position from icecore.sinks
  union all select 'sinks', 'name ' || name, 'blocked_position', blocked_position from icecore.sinks
  union all select 'sinks', 'name ' || name, 'lost_position', lost_position from icecore.sinks
  union all select 'sink_replays', 'replay_id ' || replay_id, 'to_position', to_position from icecore.sink_replays
  union all select 'sink_replays', 'replay_id ' || replay_id, 'told_position', told_position from icecore.sink_replays
  union all select 'sink_skips', 'sink ' || sink || ', position ' || position, 'position', position from icecore.sink_skips
) named ("table", key, "column", position)
where position > %(head)s or position < 0 order by 1, 2, 3

-- name: skips --
select 'sink ' || k.sink || ', position ' || k.position, e.event_id, k.event_id
from icecore.sink_skips k join icecore.events e on e.notification_id = k.position
where e.event_id <> k.event_id order by 1
