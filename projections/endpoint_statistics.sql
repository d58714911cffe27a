-- name: add --
-- Adds counted calls. Calls that name no warehouse that exists or existed in the project are of no warehouse. In one order, so that two
-- processes do not wait for each other.
insert into icecore.endpoint_statistics as s (project_id, hour, warehouse_id, http_route, status_code, count, created_at, updated_at)
select c.project_id, c.hour, c.known_id, c.http_route, c.status_code, sum(c.count), min(c.first_at), max(c.last_at)
from (
  select g.*, case when exists (
           select from icecore.names n
           where n.generation = (select generation from icecore.read_models) and n.object_id = g.warehouse_id and n.kind = 'warehouse'
             and n.parent_id = g.project_id)
         then g.warehouse_id else '00000000-0000-0000-0000-000000000000'::uuid end as known_id
  from unnest(%(project_ids)s::uuid[], %(hours)s::timestamptz[], %(warehouse_ids)s::uuid[], %(http_routes)s::text[],
              %(status_codes)s::smallint[], %(counts)s::bigint[], %(first_at)s::timestamptz[], %(last_at)s::timestamptz[])
       g(project_id, hour, warehouse_id, http_route, status_code, count, first_at, last_at)
) c
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5
on conflict (project_id, hour, warehouse_id, http_route, status_code) do update
set count = s.count + excluded.count, created_at = least(s.created_at, excluded.created_at),
    updated_at = greatest(s.updated_at, excluded.updated_at)

-- name: forget --
delete from icecore.endpoint_statistics where hour < %(before)s

-- name: page --
-- The calls in the hours that begin after one time and up to another, newest hour first, with the warehouses' names, if they exist.
-- Earlier versions counted calls that named a warehouse of another project with that warehouse.
select s.hour, s.http_route, s.status_code, s.count, case when exists (
         select from icecore.names n
         where n.generation = (select generation from icecore.read_models) and n.object_id = s.warehouse_id and n.kind = 'warehouse'
           and n.parent_id = s.project_id)
       then s.warehouse_id else '00000000-0000-0000-0000-000000000000'::uuid end, w.name, s.created_at, s.updated_at
from icecore.endpoint_statistics s
left join icecore.names w
  on w.generation = (select generation from icecore.read_models) and w.object_id = s.warehouse_id and w.kind = 'warehouse' and w.parent_id = s.project_id
    and w.to_position is null
where s.project_id = %(project_id)s and s.hour > %(after)s and s.hour <= %(upto)s
  and s.warehouse_id = coalesce(%(warehouse_id)s::uuid, s.warehouse_id)
  and (%(status_codes)s::smallint[] is null or s.status_code = any (%(status_codes)s::smallint[]))
order by s.hour desc, s.warehouse_id, s.http_route, s.status_code
limit %(limit)s
