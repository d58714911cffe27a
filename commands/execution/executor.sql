-- name: head --
-- The position of the last event, and whether commits wait for standbys.
select coalesce(max(notification_id), 0), current_setting('synchronous_standby_names') <> '' from icecore.events
