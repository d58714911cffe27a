-- name: tracking --
select application_name, notification_id from icecore.search_tracking order by application_name

-- name: every_name --
select object_id, warehouse_id, kind, name, terms from icecore.search_names

-- name: every_term --
select term, objects from icecore.search_terms

-- name: remove --
delete from icecore.search_names where object_id = any (%(ids)s::uuid[]) returning terms

-- name: add --
insert into icecore.search_names (object_id, warehouse_id, kind, name, terms)
values (%(object_id)s, %(warehouse_id)s, %(kind)s, %(name)s, %(terms)s::bigint[])

-- name: count --
insert into icecore.search_terms as s (term, objects)
select * from unnest(%(terms)s::bigint[], %(changes)s::bigint[])
on conflict (term) do update set objects = s.objects + excluded.objects

-- name: forget --
delete from icecore.search_terms where term = any (%(terms)s::bigint[]) and objects = 0

-- name: remove_names --
delete from icecore.search_names

-- name: remove_terms --
delete from icecore.search_terms

-- name: analyze --
-- Without statistics of the arrays, Postgres would read all names in a search, because `limit` makes that look cheap.
analyze icecore.search_names (terms)

-- name: frequencies --
select term, objects from icecore.search_terms where term = any (%(terms)s::bigint[]) order by objects, term

-- name: similar --
-- The objects whose own names share most terms with the search, in relation to all terms of both; only of those that have a rare term.
select c.object_id, c.kind
from (select object_id, kind, terms from icecore.search_names where terms && %(rare)s::bigint[] limit %(candidates)s) c
cross join lateral (select count(*) as shared from unnest(c.terms) t where t = any (%(terms)s::bigint[])) m
order by m.shared::float8 / (cardinality(c.terms) + cardinality(%(terms)s::bigint[]) - m.shared) desc, c.object_id
limit %(limit)s

-- name: paths --
-- The paths of names of objects that exist now in a warehouse.
with recursive above(object_id, kind, parent_id, path) as (
  select s.id, n.kind, n.parent_id, array[n.name]
  from unnest(%(ids)s::uuid[]) s(id)
  -- Lateral joins with `offset 0`, so that no plan reads all names of a kind.
  cross join lateral (
    select kind, parent_id, name from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = s.id and to_position is null
    offset 0
  ) n
  union all
  select a.object_id, a.kind, n.parent_id, n.name || a.path
  from above a
  cross join lateral (
    select parent_id, name from icecore.names
    where generation = (select generation from icecore.read_models) and object_id = a.parent_id and kind = 'namespace' and to_position is null
    offset 0
  ) n
)
select object_id, kind, path from above where parent_id = %(warehouse_id)s

-- name: tabulars_in --
-- Some tables and views in namespaces and, with `deep`, in the namespaces below them.
with recursive inside(namespace_id) as (
  select unnest(%(namespace_ids)s::uuid[])
  union all
  select n.object_id
  from inside i
  cross join lateral (
    select object_id from icecore.names
    where generation = (select generation from icecore.read_models) and parent_id = i.namespace_id and kind = 'namespace' and to_position is null
    offset 0
  ) n
  where %(deep)s
)
select t.object_id
from (select namespace_id from inside limit %(namespaces)s) i
cross join lateral (
  (select object_id from icecore.names
   where generation = (select generation from icecore.read_models) and parent_id = i.namespace_id and kind = 'table' and to_position is null
   order by name_key limit %(limit)s)
  union all
  (select object_id from icecore.names
   where generation = (select generation from icecore.read_models) and parent_id = i.namespace_id and kind = 'view' and to_position is null
   order by name_key limit %(limit)s)
) t
limit %(limit)s
