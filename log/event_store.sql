-- name: notifications --
-- The events from one position to another, of all topics or of some, limited in number and, after the first, in bytes.
select originator_id as stream_id, originator_version as version, topic, state as data, notification_id as position, event_id, command_id, recorded_at,
       actor, project_id, warehouse_id, request_id, correlation_id, causation_id, traceparent, context, hash
from (
  select e.*, sum(octet_length(e.state)) over (order by e.notification_id) as bytes, row_number() over (order by e.notification_id) as row
  from (
    select * from icecore.events
    where notification_id between %(first)s and %(last)s and (cardinality(%(topics)s::text[]) = 0 or topic = any (%(topics)s))
    order by notification_id limit %(limit)s
  ) e
) e
where e.row = 1 or e.bytes <= %(bytes_max)s
order by notification_id
