-- name: tables_of_events --
-- The tables of events as each left them and as each found them: by the whole primary key, so that a table's length costs nothing.
-- Of their heads the sizes; what a head was before matters only where all of it is replaced.
select e.notification_id, after.*, before.namespace_id, before.name, before.metadata_location,
       case when e.topic like 'table.overwritten.%%' then before.size end
from icecore.events e
cross join lateral (
  select namespace_id, name, metadata_location, octet_length(head) as size from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = e.originator_id and version = e.originator_version
  offset 0
) after
left join lateral (
  select namespace_id, name, metadata_location, octet_length(head) as size from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = e.originator_id and version = e.originator_version - 1
  offset 0
) before on true
where e.notification_id = any(%(positions)s)

-- name: views_of_events --
select e.notification_id, after.*, before.namespace_id, before.name, before.metadata_location, null
from icecore.events e
cross join lateral (
  select namespace_id, name, metadata_location, octet_length(document) as size from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = e.originator_id and version = e.originator_version
  offset 0
) after
left join lateral (
  select namespace_id, name, metadata_location from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = e.originator_id and version = e.originator_version - 1
  offset 0
) before on true
where e.notification_id = any(%(positions)s)

-- name: table_heads --
select r.number - 1, t.head
from unnest(%(ids)s::uuid[], %(versions)s::bigint[]) with ordinality r(id, version, number)
cross join lateral (
  select head from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = r.id and version = r.version
  offset 0
) t

-- name: view_documents --
select r.number - 1, v.document
from unnest(%(ids)s::uuid[], %(versions)s::bigint[]) with ordinality r(id, version, number)
cross join lateral (
  select document from icecore.views
  where generation = (select generation from icecore.read_models) and view_id = r.id and version = r.version
  offset 0
) v

-- name: snapshots --
-- Snapshots that were in a table before the version that made them the current one: their sizes, and as many of them as `bytes_max` and one more.
select number - 1, size, case when before <= %(bytes_max)s::bigint then body end
from (
  select r.number, p.body, octet_length(p.body)::bigint as size, (sum(octet_length(p.body)) over (order by r.number) - octet_length(p.body))::bigint as before
  from unnest(%(ids)s::uuid[], %(versions)s::bigint[], %(snapshot_ids)s::bigint[]) with ordinality r(id, version, snapshot_id, number)
  cross join lateral (
    select body from icecore.table_parts p
    where p.generation = (select generation from icecore.read_models) and p.table_id = r.id and p.kind = %(kind)s
      and p.snapshot_id = r.snapshot_id and p.valid_from <= r.version
    order by p.valid_from desc limit 1
  ) p
) each

-- name: removed_parts --
-- Parts by their places, those included that no longer hold; of snapshots the id alone, for there may be thousands. Of events after those
-- that removed more than `bytes_max` together, none.
select number, before <= %(bytes_max)s::bigint, id, kind, ordinal, snapshot_id, case when before <= %(bytes_max)s::bigint then body end
from (
  select r.number, r.id, r.kind, r.ordinal, p.snapshot_id, p.body,
         coalesce(sum(octet_length(p.body)) over (order by r.number groups between unbounded preceding and current row exclude group), 0) as before
  from unnest(%(numbers)s::integer[], %(ids)s::uuid[], %(kinds)s::smallint[], %(ordinals)s::bigint[]) r(number, id, kind, ordinal)
  cross join lateral (
    select snapshot_id, case when r.kind <> %(snapshots)s then body end as body from icecore.table_parts
    where generation = (select generation from icecore.read_models) and table_id = r.id and kind = r.kind and ordinal = r.ordinal
    offset 0
  ) p
) each
