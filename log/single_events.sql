-- name: event_by_id --
select originator_id, originator_version, topic, state, notification_id, event_id, command_id, recorded_at, actor, project_id,
       warehouse_id, request_id, correlation_id, causation_id, traceparent, context, hash
from icecore.events where event_id = %(event_id)s

-- name: recorded_at --
select recorded_at from icecore.events where notification_id = %(position)s

-- name: updated_at --
-- The times of the last events of streams, or of their last ones up to a position, that came after the command that created them.
select s.id, last.recorded_at
from unnest(%(ids)s::uuid[]) s(id)
cross join lateral (select command_id from icecore.events where originator_id = s.id and originator_version = 1) first
cross join lateral (
  select command_id, recorded_at from icecore.events
  where originator_id = s.id and notification_id <= coalesce(%(up_to)s::bigint, 9223372036854775807)
  order by originator_version desc limit 1
) last
where last.command_id <> first.command_id

-- name: changed_at --
-- The time of a stream's last event, or of its last one up to a position.
select recorded_at from icecore.events
where originator_id = %(stream_id)s and notification_id <= coalesce(%(up_to)s::bigint, 9223372036854775807)
order by originator_version desc limit 1
