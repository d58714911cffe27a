-- name: event_by_id --
select originator_id, originator_version, topic, state, notification_id, event_id, command_id, recorded_at, actor, project_id,
       warehouse_id, request_id, correlation_id, causation_id, traceparent, hash
from icecore.events where event_id = %(event_id)s

-- name: recorded_at --
select recorded_at from icecore.events where notification_id = %(position)s

-- name: position_before --
-- The position of the last event that was recorded before a time; times never go back as positions go on.
select coalesce(
  (select notification_id - 1 from icecore.events where recorded_at >= %(at)s order by recorded_at, notification_id limit 1),
  (select max(notification_id) from icecore.events), 0)
