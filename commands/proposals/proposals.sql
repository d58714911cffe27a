-- name: moved_on --
-- Whether one of the objects has had an event since, or a parent is gone.
select exists (
  select 1 from unnest(%(ids)s::uuid[], %(event_ids)s::uuid[]) h(id, event_id)
  where h.event_id is distinct from (
    select x.event_id from icecore.events x where x.originator_id = h.id order by x.originator_version desc limit 1)
) or exists (
  select 1 from unnest(%(parents)s::uuid[]) p(id) where not exists (select 1 from icecore.claims c where c.owner = p.id)
)
