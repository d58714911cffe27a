-- name: properties_current --
select case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, octet_length(properties) from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1

-- name: properties_as_of --
select case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, octet_length(properties) from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s and position <= %(as_of)s
order by version desc limit 1

-- name: state --
select namespace_id, version, event_id, warehouse_id, parent_id, name, name_key, status, location_key,
       case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, protected, expires_at_ms,
       root_id, generation, octet_length(properties)
from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1

-- name: states --
-- The newest versions of these namespaces.
select n.namespace_id, n.version, n.event_id, n.warehouse_id, n.parent_id, n.name, n.name_key, n.status, n.location_key, n.properties,
       n.protected, n.expires_at_ms, n.root_id, n.generation
from unnest(%(namespace_ids)s::uuid[]) requested(namespace_id)
cross join lateral (
  select * from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = requested.namespace_id
  order by version desc limit 1
) n

-- name: document_size --
-- The total size of the current namespaces.
select coalesce(sum(octet_length(newest.properties)), 0)::bigint
from unnest(%(namespace_ids)s::uuid[]) requested(namespace_id)
cross join lateral (
  select properties from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = requested.namespace_id
  order by version desc limit 1
) newest

-- name: declared --
-- The namespaces on a path, outermost first, with their newest events and their properties.
with recursive path(depth, id) as (
  select 0, %(warehouse_id)s::uuid
  union all
  select p.depth + 1, n.object_id
  from path p
  -- A lateral join with a limit of one row, so that no plan reads all names of a kind.
  cross join lateral (
    select n.object_id from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = p.id and n.kind = 'namespace'
      and n.name_key = (%(keys)s::text[])[p.depth + 1] and n.to_position is null
    limit 1
  ) n
  where p.depth < cardinality(%(keys)s::text[])
)
select p.id, n.event_id, n.properties
from path p
cross join lateral (
  select event_id, properties from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = p.id
  order by version desc limit 1
) n
where p.depth > 0 order by p.depth

-- name: is_there --
select status <> 'dropped' from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s and warehouse_id = %(warehouse_id)s
order by version desc limit 1

-- name: roots_of_deleted --
-- The roots of those of these namespaces that are soft-deleted.
select n.namespace_id, n.root_id
from unnest(%(namespace_ids)s::uuid[]) requested(namespace_id)
cross join lateral (
  select namespace_id, status, root_id from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = requested.namespace_id
  order by version desc limit 1
) n
where n.status = 'soft-deleted'
