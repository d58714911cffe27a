-- name: state --
select proposal_id, version, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document, generation
from icecore.proposals
where generation = (select generation from icecore.read_models) and proposal_id = %(proposal_id)s
order by version desc limit 1

-- name: in_project --
select exists (
  select 1 from icecore.proposals p
  join icecore.warehouses w on w.generation = p.generation and w.warehouse_id = p.warehouse_id and w.version = 1
  where p.generation = (select generation from icecore.read_models) and p.proposal_id = %(proposal_id)s and p.version = 1
    and w.project_id = %(project_id)s)

-- name: versions --
-- Without their commands, which may be large.
select p.proposal_id, p.version, p.event_id, p.warehouse_id, p.status, p.operation, p.command_key, p.hook, p.reason, p.expires_at_ms,
       convert_to(jsonb_set(convert_from(p.document, 'UTF8')::jsonb, '{command}', '{}')::text, 'UTF8'), p.generation
from unnest(%(ids)s::uuid[], %(versions)s::bigint[]) r(id, version)
cross join lateral (
  select proposal_id, version, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document, generation
  from icecore.proposals
  where generation = (select generation from icecore.read_models) and proposal_id = r.id and version = r.version
  offset 0
) p

-- name: open_for --
-- The open proposal for a change, by its claim.
select owner from icecore.claims where kind = 'proposal' and scope = %(warehouse_id)s and key = %(command_key)s

-- name: due --
-- Open proposals that have expired.
select p.proposal_id
from icecore.claims c
cross join lateral (
  select proposal_id, expires_at_ms from icecore.proposals
  where generation = (select generation from icecore.read_models) and proposal_id = c.owner
  order by version desc limit 1
) p
where c.kind = 'proposal' and p.expires_at_ms <= %(now_ms)s
order by p.proposal_id limit %(limit)s

-- name: list_open --
select p.proposal_id, p.version, p.event_id, p.warehouse_id, p.status, p.operation, p.command_key, p.hook, p.reason, p.expires_at_ms,
       convert_to(jsonb_set(convert_from(p.document, 'UTF8')::jsonb, '{command}', '{}')::text, 'UTF8'), p.generation, p.found
from (
  -- Sizes only: Postgres knows the size of a TOASTed column without reading it.
  select p.*, count(*) over () as found, sum(octet_length(p.document)) over (order by p.proposal_id) - octet_length(p.document) as bytes_before
  from (
    select p.*
    from icecore.claims c
    cross join lateral (
      select proposal_id, version, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document, generation
      from icecore.proposals
      where generation = (select generation from icecore.read_models) and proposal_id = c.owner
      order by version desc limit 1
    ) p
    where c.kind = 'proposal' and (%(warehouse_id)s::uuid is null or c.scope = %(warehouse_id)s)
      and exists (
        select 1 from icecore.warehouses w
        where w.generation = p.generation and w.warehouse_id = c.scope and w.version = 1 and w.project_id = %(project_id)s)
      and (%(after)s::uuid is null or p.proposal_id > %(after)s)
    order by p.proposal_id limit %(size)s
  ) p
) p
where p.bytes_before < %(bytes_max)s
order by p.proposal_id

-- name: list --
-- In the order in which they were opened, because the ids are UUIDv7.
select p.proposal_id, p.version, p.event_id, p.warehouse_id, p.status, p.operation, p.command_key, p.hook, p.reason, p.expires_at_ms,
       convert_to(jsonb_set(convert_from(p.document, 'UTF8')::jsonb, '{command}', '{}')::text, 'UTF8'), p.generation, p.found
from (
  -- Sizes only: Postgres knows the size of a TOASTed column without reading it.
  select p.*, count(*) over () as found, sum(octet_length(p.document)) over (order by p.proposal_id) - octet_length(p.document) as bytes_before
  from (
    select p.*
    from icecore.proposals o
    cross join lateral (
      select proposal_id, version, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document, generation
      from icecore.proposals
      where generation = o.generation and proposal_id = o.proposal_id and (%(as_of)s::bigint is null or position <= %(as_of)s)
      order by version desc limit 1
    ) p
    where o.generation = (select generation from icecore.read_models) and o.version = 1
      and (%(as_of)s::bigint is null or o.position <= %(as_of)s)
      and (%(warehouse_id)s::uuid is null or o.warehouse_id = %(warehouse_id)s)
      and exists (
        select 1 from icecore.warehouses w
        where w.generation = o.generation and w.warehouse_id = o.warehouse_id and w.version = 1 and w.project_id = %(project_id)s)
      and (%(after)s::uuid is null or o.proposal_id > %(after)s)
      and (%(status)s::text is null or p.status = %(status)s)
    order by o.proposal_id limit %(size)s
  ) p
) p
where p.bytes_before < %(bytes_max)s
order by p.proposal_id

-- name: moved_on --
-- Whether one of the objects has a newer event, or a parent was dropped.
select exists (
  select 1 from unnest(%(ids)s::uuid[], %(event_ids)s::uuid[]) h(id, event_id)
  where h.event_id is distinct from (
    select x.event_id from icecore.events x where x.originator_id = h.id order by x.originator_version desc limit 1)
) or exists (
  select 1 from unnest(%(parents)s::uuid[]) p(id) where not exists (select 1 from icecore.claims c where c.owner = p.id)
)
