-- name: event_counts --
select command_id, (last_position - first_position + 1)::bigint from icecore.commands where command_id = any(%(ids)s::uuid[])

-- name: parts --
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
