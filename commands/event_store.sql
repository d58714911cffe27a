-- name: event_id --
select event_id from icecore.events where originator_id = %(stream_id)s and originator_version = %(version)s

-- name: stream_ascending --
select originator_id, originator_version, topic, state, event_id, project_id, warehouse_id
from icecore.events
where originator_id = %(stream_id)s and originator_version > coalesce(%(gt)s::bigint, 0)
  and originator_version <= coalesce(%(lte)s::bigint, 9223372036854775807)
order by originator_version limit %(limit)s

-- name: stream_descending --
select originator_id, originator_version, topic, state, event_id, project_id, warehouse_id
from icecore.events
where originator_id = %(stream_id)s and originator_version > coalesce(%(gt)s::bigint, 0)
  and originator_version <= coalesce(%(lte)s::bigint, 9223372036854775807)
order by originator_version desc limit %(limit)s
