-- name: by_id --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s
  and (%(project_id)s::uuid is null or w.project_id = %(project_id)s)
order by w.version desc limit 1

-- name: of_any_project --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s
order by w.version desc limit 1

-- name: by_name --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from icecore.names n
-- A join would sort every version.
cross join lateral (
  select * from icecore.warehouses w where w.generation = n.generation and w.warehouse_id = n.object_id order by w.version desc limit 1
) w
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(project_id)s and n.kind = 'warehouse'
  and n.name_key = %(name_key)s and n.to_position is null

-- name: all --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from icecore.names n
cross join lateral (
  select * from icecore.warehouses w where w.generation = n.generation and w.warehouse_id = n.object_id order by w.version desc limit 1
) w
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(project_id)s and n.kind = 'warehouse'
  and n.to_position is null
  and (%(status)s::text is null or w.status = %(status)s)
order by n.object_id
limit %(limit)s

-- name: of_all_projects --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from icecore.names n
cross join lateral (
  select * from icecore.warehouses w where w.generation = n.generation and w.warehouse_id = n.object_id order by w.version desc limit 1
) w
where n.generation = (select generation from icecore.read_models) and n.kind = 'warehouse' and n.to_position is null
order by n.object_id

-- name: sharing_storage --
-- Those that may share the storage of a profile: of its type, and with the name of one of its buckets anywhere in their profile (names is
-- null: whatever they contain) or another endpoint. The names contain no character that JSON escapes. Not by way of icecore.names: it has no
-- index by kind, and contains every table. The ids are looked up one after the other, so that former versions are not read.
with recursive ids(id) as (
  (
    select warehouse_id from icecore.warehouses
    where generation = (select generation from icecore.read_models)
    order by warehouse_id limit 1
  )
  union all
  select (
    select n.warehouse_id from icecore.warehouses n
    where n.generation = (select generation from icecore.read_models) and n.warehouse_id > ids.id
    order by n.warehouse_id limit 1
  )
  from ids where ids.id is not null
)
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.config,
       w.status, w.protected, w.format_versions, w.read_only, w.expiration_seconds, w.purge_default, w.purge_heartbeat_seconds_max,
       w.generation
from ids
cross join lateral (
  select * from icecore.warehouses w
  where w.generation = (select generation from icecore.read_models) and w.warehouse_id = ids.id
  order by w.version desc limit 1
) w
where w.status <> 'deleted'
  and (
    %(names)s::text[] is null
    or exists (select from unnest(%(names)s::text[]) name where position(convert_to(name, 'UTF8') in w.storage_profile) > 0)
    or (%(endpoint)s::text is not null and convert_from(w.storage_profile, 'UTF8')::json ->> 'endpoint' <> %(endpoint)s::text)
  )
  and convert_from(w.storage_profile, 'UTF8')::json ->> 'type' = %(type)s
order by w.warehouse_id

-- name: secret_refs --
select w.secret_ref
from icecore.names n
cross join lateral (
  select w.secret_ref from icecore.warehouses w where w.generation = n.generation and w.warehouse_id = n.object_id
  order by w.version desc limit 1
) w
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(project_id)s and n.kind = 'warehouse'
  and n.to_position is null and w.secret_ref is not null

-- name: read_only --
select n.object_id
from icecore.names n
cross join lateral (
  select w.read_only from icecore.warehouses w where w.generation = n.generation and w.warehouse_id = n.object_id
  order by w.version desc limit 1
) w
where n.generation = (select generation from icecore.read_models) and n.kind = 'warehouse' and n.to_position is null and w.read_only

-- name: is_read_only --
select w.read_only from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s
order by w.version desc limit 1

-- name: existed --
select w.status <> 'deleted' from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s and w.position <= %(as_of)s
order by w.version desc limit 1
