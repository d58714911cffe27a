-- name: event_counts --
select command_id, (last_position - first_position + 1)::bigint from icecore.commands where command_id = any(%(ids)s::uuid[])
