-- name: load_current --
select view_id, version, metadata_location, case when octet_length(document) <= %(bytes_max)s::bigint then document end, octet_length(document)
from icecore.views
where generation = (select generation from icecore.read_models) and view_id = %(view_id)s
order by version desc limit 1

-- name: load_as_of --
select view_id, version, metadata_location, case when octet_length(document) <= %(bytes_max)s::bigint then document end, octet_length(document)
from icecore.views
where generation = (select generation from icecore.read_models) and view_id = %(view_id)s
  and (%(as_of)s::bigint is null or position <= %(as_of)s) and (%(version)s::bigint is null or version <= %(version)s)
order by version desc limit 1

-- name: state --
select view_id, version, event_id, warehouse_id, namespace_id, name, name_key, status, metadata_location, locations,
       case when octet_length(document) <= %(bytes_max)s::bigint then document end, protected, expires_at_ms, generation, octet_length(document)
from icecore.views
where generation = (select generation from icecore.read_models) and view_id = %(view_id)s
order by version desc limit 1

-- name: states --
-- The newest versions of these views.
select v.view_id, v.version, v.event_id, v.warehouse_id, v.namespace_id, v.name, v.name_key, v.status, v.metadata_location, v.locations,
       v.document, v.protected, v.expires_at_ms, v.generation
from unnest(%(view_ids)s::uuid[]) requested(view_id)
cross join lateral (
  select * from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = requested.view_id
  order by version desc limit 1
) v

-- name: soft_deleted_files --
-- The versions and metadata files of those of these views that are soft-deleted.
select requested.view_id, v.version, v.metadata_location
from unnest(%(view_ids)s::uuid[]) requested(view_id)
cross join lateral (
  select version, metadata_location, status from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = requested.view_id
  order by version desc limit 1
) v
where v.status = 'soft-deleted'

-- name: document_size --
-- The total size of the current views.
select coalesce(sum(octet_length(newest.document)), 0)::bigint
from unnest(%(view_ids)s::uuid[]) requested(view_id)
cross join lateral (
  select document from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = requested.view_id
  order by version desc limit 1
) newest
