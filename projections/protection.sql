-- name: namespace --
select warehouse_id, status = 'live', protected from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(object_id)s
order by version desc limit 1

-- name: table --
select warehouse_id, status = 'live', protected from icecore.tables
where generation = (select generation from icecore.read_models) and table_id = %(object_id)s
order by version desc limit 1

-- name: view --
select warehouse_id, status = 'live', protected from icecore.views
where generation = (select generation from icecore.read_models) and view_id = %(object_id)s
order by version desc limit 1
