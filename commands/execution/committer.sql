-- name: append --
select command, outcome, position, detail, status, object_id, version, body, waited_microseconds
from icecore.append(%(commands)s::text::jsonb, %(blobs)b::bytea[])

-- name: find_key --
select i.status, i.object_id, i.version, i.body, i.position, i.operation, i.request_hash,
       current_setting('synchronous_standby_names') <> ''
from icecore.idempotency i
where i.project_id = %(project_id)s and i.actor = %(actor)s and i.key = %(key)s

-- name: forget_keys --
delete from icecore.idempotency i where i.recorded_at < now() - %(lifetime)s
