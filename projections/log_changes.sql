-- name: changes --
-- What came into the log after a position ($1), at most $2 events, with the generation of the read models that is served.
select m.generation, e.notification_id, e.originator_id, e.topic
from icecore.read_models m
left join lateral (
  select notification_id, originator_id, topic from icecore.events
  where notification_id > $1 order by notification_id limit $2
) e on true

-- name: head --
select m.generation, (select coalesce(max(notification_id), 0) from icecore.events) from icecore.read_models m
