-- name: load_current --
-- The tables with the given names: the index of each in the request, its head, and its parts with the bodies of each kind joined.
-- One JSON parameter for all names, because arrays would be planned again for each length.
-- Kinds of parts by number: domain/read_models/tables.py; 4 is snapshots, 5 is refs.
with recursive path(number, keys, referenced_only, depth, id) as (
  select s.number, s.keys, s.referenced_only, 0, s.warehouse_id
  from (
    select * from rows from (json_to_recordset(%(lookups)s::json) as (warehouse_id uuid, keys text[], referenced_only boolean))
      with ordinality s(warehouse_id, keys, referenced_only, number)
    -- TABLES_PER_STATEMENT_MAX. The planner assumes a hundred rows for any JSON and would then consider JIT.
    limit 16
  ) s
  union all
  select p.number, p.keys, p.referenced_only, p.depth + 1, n.object_id
  from path p
  -- A lateral join with a limit of one row, so that no plan reads all names of a kind. The last key is the table's.
  cross join lateral (
    select n.object_id, n.to_position from icecore.names n
    where n.generation = (select generation from icecore.read_models) and n.parent_id = p.id
      and n.kind = case when p.depth + 1 < cardinality(p.keys) then 'namespace' else 'table' end and n.name_key = p.keys[p.depth + 1]
    order by n.from_position desc limit 1
  ) n
  where n.to_position is null
)
select s.number, p.size, t.table_id, t.version, t.event_id, t.metadata_location, case when p.size <= %(bytes_max)s::bigint then t.head end, p.kinds, p.bodies
from (select number, id, referenced_only from path where depth = cardinality(keys)) s
cross join lateral (
  select * from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = s.id
  order by version desc limit 1
) t
cross join lateral (
  -- Parts that are closed by a tombstone but not yet in their rows. Usually null, and then no part is compared with it.
  select range_agg(o.range) as ordinals
  from icecore.part_tombstones c, unnest(c.ordinals) o(range) where c.generation = t.generation and c.table_id = t.table_id
) closing
left join lateral (
  -- Only the size if the table is larger than requested.
  select case when sum(octet_length(k.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(k.kind) end as kinds,
         case when sum(octet_length(k.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(k.body) end as bodies,
         (coalesce(sum(octet_length(k.body)), 0) + octet_length(t.head))::bigint as size from (
    select a.kind, string_agg(a.body, ','::bytea order by a.ordinal) as body
    from icecore.table_parts a
    where a.generation = t.generation and a.table_id = t.table_id and a.valid_to is null
      and (closing.ordinals is null or not closing.ordinals @> a.ordinal)
      and (not s.referenced_only or a.kind <> 4 or a.snapshot_id in (
        select r.snapshot_id from icecore.table_parts r
        where r.generation = t.generation and r.table_id = t.table_id and r.kind = 5 and r.valid_to is null
          and (closing.ordinals is null or not closing.ordinals @> r.ordinal)))
    group by a.kind
  ) k
) p on true

-- name: load_as_of --
-- A table by its id: its newest version up to a position or up to a version of its stream.
select p.size, t.table_id, t.version, t.event_id, t.metadata_location, case when p.size <= %(bytes_max)s::bigint then t.head end, p.kinds, p.bodies
from (
  select * from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = %(table_id)s
    and position <= coalesce(%(as_of)s::bigint, 9223372036854775807) and version <= coalesce(%(version)s::bigint, 9223372036854775807)
  order by version desc limit 1
) t
cross join lateral (
  -- Parts that are closed by a tombstone but not yet in their rows. Usually null, and then no part is compared with it.
  select range_agg(o.range) as ordinals
  from icecore.part_tombstones c, unnest(c.ordinals) o(range) where c.generation = t.generation and c.table_id = t.table_id and c.valid_to <= t.version
) closing
left join lateral (
  -- Only the size if the table is larger than requested.
  select case when sum(octet_length(k.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(k.kind) end as kinds,
         case when sum(octet_length(k.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(k.body) end as bodies,
         (coalesce(sum(octet_length(k.body)), 0) + octet_length(t.head))::bigint as size from (
    select a.kind, string_agg(a.body, ','::bytea order by a.ordinal) as body
    from icecore.table_parts a
    where a.generation = t.generation and a.table_id = t.table_id and a.valid_from <= t.version and (a.valid_to is null or a.valid_to > t.version)
      and (closing.ordinals is null or not closing.ordinals @> a.ordinal)
      and (not %(referenced_only)s or a.kind <> 4 or a.snapshot_id in (
        select r.snapshot_id from icecore.table_parts r
        where r.generation = t.generation and r.table_id = t.table_id and r.kind = 5 and r.valid_from <= t.version and (r.valid_to is null or r.valid_to > t.version)
          and (closing.ordinals is null or not closing.ordinals @> r.ordinal)))
    group by a.kind
  ) k
) p on true

-- name: state --
-- The state for the next commit: the newest head, and its open parts as arrays.
select t.table_id, t.version, t.event_id, t.warehouse_id, t.namespace_id, t.name, t.name_key, t.status, t.metadata_location,
       t.locations, t.next_ordinal, case when p.size <= %(bytes_max)s::bigint then t.head end, p.kinds, p.ordinals, p.bodies, t.expires_at_ms,
       coalesce(t.purges, false), (select generation from icecore.read_models), t.protected,
       p.size
from (
  select * from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = %(table_id)s
  order by version desc limit 1
) t
cross join lateral (
  -- Parts that are closed by a tombstone but not yet in their rows. Usually null, and then no part is compared with it.
  select range_agg(o.range) as ordinals
  from icecore.part_tombstones c, unnest(c.ordinals) o(range) where c.generation = t.generation and c.table_id = t.table_id
) closing
left join lateral (
  -- Only the size if the table is larger than requested.
  select case when sum(octet_length(a.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(a.kind order by a.kind, a.ordinal) end as kinds,
         case when sum(octet_length(a.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(a.ordinal order by a.kind, a.ordinal) end as ordinals,
         case when sum(octet_length(a.body)) + octet_length(t.head) <= %(bytes_max)s::bigint then array_agg(a.body order by a.kind, a.ordinal) end as bodies,
         (coalesce(sum(octet_length(a.body)), 0) + octet_length(t.head))::bigint as size
  from icecore.table_parts a
  where a.generation = t.generation and a.table_id = t.table_id and a.valid_to is null
    and (closing.ordinals is null or not closing.ordinals @> a.ordinal)
) p on true

-- name: heads --
-- The newest heads of these tables.
select t.table_id, t.version, t.event_id, t.warehouse_id, t.namespace_id, t.name, t.name_key, t.status, t.metadata_location, t.locations,
       t.next_ordinal, t.head, t.expires_at_ms, coalesce(t.purges, false), t.protected, t.generation
from unnest(%(table_ids)s::uuid[]) requested(table_id)
cross join lateral (
  select * from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = requested.table_id
  order by version desc limit 1
) t

-- name: head_size --
-- The total size of the current heads of these tables.
select coalesce(sum(octet_length(t.head)), 0)::bigint
from unnest(%(table_ids)s::uuid[]) requested(table_id)
cross join lateral (
  select h.head from icecore.tables h
  where h.generation = (select generation from icecore.read_models) and h.table_id = requested.table_id
  order by h.version desc limit 1
) t

-- name: snapshots --
-- A current snapshot of each of these tables, or only its size. If it was removed and added again, the newer part counts.
select requested.table_id, octet_length(a.body), case when %(bodies)s then a.body end
from unnest(%(table_ids)s::uuid[], %(snapshot_ids)s::bigint[]) requested(table_id, snapshot_id)
cross join lateral (
  select p.body from icecore.table_parts p
  where p.generation = (select generation from icecore.read_models) and p.table_id = requested.table_id and p.kind = %(kind)s
    and p.snapshot_id = requested.snapshot_id and p.valid_to is null
  order by p.ordinal desc limit 1
) a

-- name: document_size --
-- The total size of the current tables. Parts that a tombstone closes count as open until they are closed.
select coalesce(sum(octet_length(t.head) + coalesce(p.size, 0)), 0)::bigint
from unnest(%(table_ids)s::uuid[]) requested(table_id)
cross join lateral (
  select h.generation, h.head from icecore.tables h
  where h.generation = (select generation from icecore.read_models) and h.table_id = requested.table_id
  order by h.version desc limit 1
) t
cross join lateral (
  select sum(octet_length(a.body)) as size from icecore.table_parts a
  where a.generation = t.generation and a.table_id = requested.table_id and a.valid_to is null
) p

-- name: named_metadata_files --
-- The metadata file of a table and those in its metadata log; for a dropped table, those of its last version. A soft-deleted one may be live again.
select t.status in ('live', 'soft-deleted'), t.metadata_location, array(
  select a.body from icecore.table_parts a
  where a.generation = t.generation and a.table_id = t.table_id and a.kind = %(metadata_log)s and a.valid_to is null
    and (closing.ordinals is null or not closing.ordinals @> a.ordinal))
from (
  select * from icecore.tables
  where generation = (select generation from icecore.read_models) and table_id = %(table_id)s
  order by version desc limit 1
) t
cross join lateral (
  -- Parts that are closed by a tombstone but not yet in their rows. Usually null, and then no part is compared with it.
  select range_agg(o.range) as ordinals
  from icecore.part_tombstones c, unnest(c.ordinals) o(range) where c.generation = t.generation and c.table_id = t.table_id
) closing

-- name: is_purging --
select t.status = 'purging' from icecore.tables t
where t.generation = (select generation from icecore.read_models) and t.table_id = %(table_id)s
order by t.version desc limit 1
