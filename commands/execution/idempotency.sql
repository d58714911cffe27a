-- name: find_idempotency_record --
select i.status, i.object_id, i.version, i.body, i.position, i.operation, i.request_hash,
       current_setting('synchronous_standby_names') <> ''
from icecore.idempotency i
where i.project_id = %(project_id)s and i.actor = %(actor)s and i.key = %(key)s

-- name: delete_expired --
delete from icecore.idempotency i where i.recorded_at < now() - %(lifetime)s
