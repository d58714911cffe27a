-- name: append --
select command, outcome, position, detail, status, object_id, version, body, waited_microseconds
from icecore.append(%(commands)s::text::jsonb, %(blobs)b::bytea[])
