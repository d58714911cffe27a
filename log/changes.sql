-- name: changes --
-- The first events after a position (CHANGES_PAGE_SIZE, 100), with the current generation of the read models.
-- With this constant limit Postgres keeps one plan. With a parameter or a limit of 1,000 it plans each call, which takes four times as long
-- as the rest of the statement.
-- Each row has the id of the event at the position. If it has changed, the database was restored to an earlier point.
select m.generation, e.notification_id, e.originator_id, e.topic, e.event_id, h.event_id
from icecore.read_models m
left join icecore.events h on h.notification_id = $1
left join lateral (
  select notification_id, originator_id, topic, event_id from icecore.events
  where notification_id > $1 order by notification_id limit 100
) e on true

-- name: head --
select m.generation, coalesce(e.notification_id, 0), e.event_id
from icecore.read_models m
left join lateral (select notification_id, event_id from icecore.events order by notification_id desc limit 1) e on true

-- name: last_event_id --
select event_id from icecore.events where originator_id = %(stream_id)s order by originator_version desc limit 1
