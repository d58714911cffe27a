-- name: changes --
-- What came into the log after a position, with the generation of the read models that is served; the first hundred, CHANGES_AT_ONCE.
-- For so few Postgres settles on one plan. Not knowing the limit, or for a thousand, it plans anew at each call, which takes four times
-- as long as everything else about it.
select m.generation, e.notification_id, e.originator_id, e.topic
from icecore.read_models m
left join lateral (
  select notification_id, originator_id, topic from icecore.events
  where notification_id > $1 order by notification_id limit 100
) e on true

-- name: head --
select m.generation, (select coalesce(max(notification_id), 0) from icecore.events) from icecore.read_models m
