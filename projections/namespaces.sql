-- name: properties_now --
select case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, octet_length(properties) from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1

-- name: properties_then --
select case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, octet_length(properties) from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s and position <= %(as_of)s
order by version desc limit 1

-- name: state --
select namespace_id, version, event_id, warehouse_id, parent_id, name, name_key, status,
       case when octet_length(properties) <= %(bytes_max)s::bigint then properties end, generation, octet_length(properties)
from icecore.namespaces
where generation = (select generation from icecore.read_models) and namespace_id = %(namespace_id)s
order by version desc limit 1

-- name: document_bytes --
-- Of what namespaces hold now, together.
select coalesce(sum(octet_length(newest.properties)), 0)::bigint
from unnest(%(namespace_ids)s::uuid[]) sought(namespace_id)
cross join lateral (
  select properties from icecore.namespaces
  where generation = (select generation from icecore.read_models) and namespace_id = sought.namespace_id
  order by version desc limit 1
) newest
