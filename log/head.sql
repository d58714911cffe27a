-- name: is_read_only --
select current_setting('transaction_read_only') = 'on'

-- name: log_head --
select coalesce(max(notification_id), 0) from icecore.events
