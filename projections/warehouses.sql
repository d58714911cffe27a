-- name: by_id --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.generation
from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s and w.project_id = %(project_id)s
order by w.version desc limit 1

-- name: of_any_project --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.generation
from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s
order by w.version desc limit 1

-- name: by_name --
select w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.generation
from icecore.names n
join icecore.warehouses w on w.generation = n.generation and w.warehouse_id = n.object_id
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(project_id)s and n.kind = 'warehouse'
  and n.name_key = %(name_key)s and n.to_position is null
order by w.version desc limit 1

-- name: all --
select distinct on (w.warehouse_id)
       w.warehouse_id, w.version, w.event_id, w.project_id, w.name, w.name_key, w.storage_profile, w.secret_ref, w.exact_names, w.generation
from icecore.names n
join icecore.warehouses w on w.generation = n.generation and w.warehouse_id = n.object_id
where n.generation = (select generation from icecore.read_models) and n.parent_id = %(project_id)s and n.kind = 'warehouse'
  and n.to_position is null
order by w.warehouse_id, w.version desc
limit %(limit)s

-- name: existed --
select 1 from icecore.warehouses w
where w.generation = (select generation from icecore.read_models) and w.warehouse_id = %(warehouse_id)s and w.position <= %(as_of)s
limit 1
