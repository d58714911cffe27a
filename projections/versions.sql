-- name: tables_of_events --
-- The tables of events before and after each event, by the whole primary key, so that the number of a table's versions does not matter.
-- Only the sizes of heads. The head before matters only if an event replaces all of it.
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
-- Snapshots that were in a table before the version that made them current: their sizes, and their bodies until these exceed `bytes_max`.
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
-- Parts by their ordinals, closed ones included. Of snapshots only the id, because there may be thousands. Bodies of an event are left
-- out if the events before it removed more than `bytes_max` in all.
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
