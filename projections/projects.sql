-- name: by_id --
select project_id, version, event_id, name, name_key, status, generation
from icecore.projects
where generation = (select generation from icecore.read_models) and project_id = %(project_id)s
order by version desc limit 1

-- name: by_name --
-- By the claim of the name.
select p.project_id, p.version, p.event_id, p.name, p.name_key, p.status, p.generation
from icecore.claims c
cross join lateral (
  select * from icecore.projects
  where generation = (select generation from icecore.read_models) and project_id = c.owner order by version desc limit 1
) p
where c.kind = 'project' and c.scope = %(scope)s and c.key = %(name_key)s

-- name: all --
select p.project_id, p.version, p.event_id, p.name, p.name_key, p.status, p.generation
from icecore.claims c
cross join lateral (
  select * from icecore.projects
  where generation = (select generation from icecore.read_models) and project_id = c.owner order by version desc limit 1
) p
where c.kind = 'project' and c.scope = %(scope)s
order by p.project_id

-- name: versions --
select p.project_id, p.version, p.name
from unnest(%(ids)s::uuid[], %(versions)s::bigint[]) r(id, version)
join icecore.projects p
  on p.generation = (select generation from icecore.read_models) and p.project_id = r.id and p.version = r.version

-- name: contains_warehouse --
select exists (select 1 from icecore.claims where scope = %(project_id)s)
