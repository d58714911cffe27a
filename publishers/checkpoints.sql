-- name: try_lock --
-- A lock of the session, released with it. An idle session is ended, so that a frozen leader is replaced.
select pg_try_advisory_lock(hashtextextended(%(lock_prefix)s::text || %(name)s, 0)),
       set_config('idle_session_timeout', %(silence_ms)s, false)

-- name: begin --
insert into icecore.sinks as s (name, epoch, position, leader, led_since)
values (%(name)s, 1, case when %(start)s = 'now' then (select coalesce(max(notification_id), 0) from icecore.events) else 0 end,
        %(leader)s, now())
on conflict (name) do update set epoch = s.epoch + 1, leader = excluded.leader, led_since = excluded.led_since
returning epoch, position, broker_sequence

-- name: move --
update icecore.sinks set position = %(position)s, broker_sequence = %(broker_sequence)s, updated_at = now()
where name = %(name)s and epoch = %(epoch)s and position = %(before)s

-- name: set_lost --
update icecore.sinks set lost_position = %(lost_position)s, broker_sequence = %(broker_sequence)s where name = %(name)s and epoch = %(epoch)s

-- name: report --
update icecore.sinks set last_error = %(error)s, last_error_at = now(), blocked_position = %(blocked_position)s
where name = %(name)s and epoch = %(epoch)s

-- name: recovered --
update icecore.sinks set last_error = null, last_error_at = null, blocked_position = null where name = %(name)s and epoch = %(epoch)s

-- name: is_leader --
select exists (select 1 from icecore.sinks where name = %(name)s and epoch = %(epoch)s)

-- name: resign --
update icecore.sinks set leader = null where name = %(name)s and epoch = %(epoch)s

-- name: event_id --
select event_id from icecore.events where notification_id = %(position)s

-- name: operator_requests --
-- The requests of operators for a sink: positions to skip, and the next replay.
select array(select position from icecore.sink_skips where sink = %(name)s),
       r.replay_id, r.from_position, r.to_position, r.replayed_position, r.filter
from (select 1) one
left join lateral (
  select * from icecore.sink_replays
  where sink = %(name)s and finished_at is null and cancelled_at is null
  order by requested_at, replay_id limit 1
) r on true

-- name: move_replay --
update icecore.sink_replays r
set replayed_position = %(position)s, replayed_events = replayed_events + %(events)s,
    finished_at = case when %(position)s >= to_position then now() end
where replay_id = %(replay_id)s and replayed_position = %(before)s and cancelled_at is null
  and exists (select 1 from icecore.sinks where name = r.sink and epoch = %(epoch)s)

-- name: clear_lost_position --
-- A replay of all lost events has finished.
update icecore.sinks s set lost_position = null
from icecore.sink_replays r
where s.name = %(name)s and s.epoch = %(epoch)s and r.replay_id = %(replay_id)s and r.sink = s.name and r.finished_at is not null
  and r.from_position = 1 and r.to_position >= s.lost_position and r.filter = %(everything)s::jsonb

-- name: skip --
insert into icecore.sink_skips (sink, position, event_id, reason, actor)
select %(name)s, notification_id, event_id, %(reason)s, %(actor)s from icecore.events where notification_id = %(position)s
on conflict do nothing

-- name: skipped --
select reason, actor, skipped_at from icecore.sink_skips where sink = %(name)s and position = %(position)s

-- name: request_replay --
insert into icecore.sink_replays (replay_id, sink, from_position, to_position, filter, replayed_position)
values (%(replay_id)s, %(name)s, %(from_position)s, %(to_position)s, %(filter)s, %(from_position)s - 1)

-- name: replay_progress --
select r.replayed_position, r.replayed_events, r.finished_at is not null, r.cancelled_at is not null, s.last_error
from icecore.sink_replays r left join icecore.sinks s on s.name = r.sink
where r.replay_id = %(replay_id)s

-- name: cancel_replay --
update icecore.sink_replays set cancelled_at = now()
where replay_id = %(replay_id)s and finished_at is null and cancelled_at is null

-- name: cancel_replays --
update icecore.sink_replays set cancelled_at = now()
where sink = %(name)s and finished_at is null and cancelled_at is null
returning replay_id, replayed_position

-- name: status --
select s.name, s.position, h.head, e.recorded_at, s.leader, s.led_since, s.last_error, s.last_error_at, s.blocked_position, s.lost_position,
       (select count(*) from icecore.sink_skips k where k.sink = s.name),
       r.replay_id, r.from_position, r.to_position, r.replayed_position,
       exists (select 1 from pg_locks l where l.locktype = 'advisory' and l.granted
               and l.database = (select oid from pg_database where datname = current_database())
               and ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(%(lock_prefix)s::text || s.name, 0))
from icecore.sinks s
cross join (select coalesce(max(notification_id), 0) as head from icecore.events) h
left join lateral (select recorded_at from icecore.events where notification_id > s.position order by notification_id limit 1) e on true
left join lateral (
  select * from icecore.sink_replays
  where sink = s.name and finished_at is null and cancelled_at is null order by requested_at, replay_id limit 1
) r on true
order by s.name
