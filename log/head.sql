-- name: is_read_only --
select current_setting('transaction_read_only') = 'on'

-- name: is_standby --
select pg_is_in_recovery()

-- name: log_head --
select coalesce(max(notification_id), 0) from icecore.events

-- name: log_head_and_standbys --
-- The position of the last event, and whether commits wait for standbys.
select coalesce(max(notification_id), 0), current_setting('synchronous_standby_names') <> '' from icecore.events

-- name: last_position_outside --
-- The last position after another whose event is not of a warehouse.
select notification_id from icecore.events where notification_id > %(after)s and warehouse_id <> %(warehouse_id)s
order by notification_id desc limit 1
