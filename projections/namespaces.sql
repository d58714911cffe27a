-- name: properties_now --
select properties from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1

-- name: properties_then --
select properties from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s and position <= %(as_of)s
order by version desc limit 1

-- name: state --
select namespace_id, version, event_id, warehouse_id, parent_id, name, name_key, status, properties, generation
from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1
