-- name: position_not_after --
-- The last position of the last command that ends at or before a position.
select max(last_position) from icecore.commands where first_position is not null and last_position <= %(as_of)s

-- name: beyond --
-- Whether a time is later than the last event of the log, and whether it is also in the future.
select %(at)s > coalesce(e.recorded_at, '-infinity'), %(at)s > greatest(now(), e.recorded_at)
from (select) log left join lateral (select recorded_at from icecore.events order by notification_id desc limit 1) e on true

-- name: position_at --
-- The last position of the last command that was recorded at or before a time.
select max(c.last_position) from icecore.commands c
where c.first_position is not null and c.last_position <= (
  select max(e.notification_id) from icecore.events e where e.recorded_at <= %(at)s)
