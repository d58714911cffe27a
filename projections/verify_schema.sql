-- name: functions --
-- The oldest function with a name is compared. Others with the name are not from a migration.
select p.proname || case when lag(p.oid) over (partition by p.proname order by p.oid) is null then ''
                         else '(' || pg_get_function_identity_arguments(p.oid) || ')' end,
       p.prosrc, p.prosecdef, coalesce(array_to_string(p.proconfig, ', '), ''),
       concat_ws(' ', l.lanname, case p.provolatile when 'i' then 'immutable' when 's' then 'stable' end, case when p.proisstrict then 'strict' end,
                 case when p.proleakproof then 'leakproof' end, case p.proparallel when 's' then 'parallel safe' when 'r' then 'parallel restricted' end)
from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'icecore'::regnamespace order by p.proname, p.oid

-- name: schema --
-- All objects of the schema that affect its rows, except functions: catalog, name, definition as Postgres 14 and later print it. Since
-- Postgres 18, not null is a constraint of its own; here it is part of the columns.
with relation as (select c.* from pg_class c where c.relnamespace = 'icecore'::regnamespace)
select * from (
  select 'pg_class', c.relname,
         case c.relkind when 'r' then 'table' else 'kind ' || c.relkind::text end
         || case c.relpersistence when 'p' then '' else ', unlogged' end
         || case when c.relrowsecurity then ', row security' else '' end
         || case when exists (select from pg_inherits h where c.oid in (h.inhparent, h.inhrelid)) then ', inheritance' else '' end
  from relation c where c.relkind <> 'i'
  union all
  select 'pg_attribute', c.relname || ' ' || a.attname,
         row_number() over (partition by c.oid order by a.attnum) || ' ' || format_type(a.atttypid, a.atttypmod)
         || case when a.attnotnull then ' not null' else '' end
         || case when a.attcollation in (0, t.typcollation) then '' else ' collate ' || a.attcollation::regcollation end
         || case a.attidentity when '' then '' else ' identity ' || a.attidentity::text end
         || coalesce(case a.attgenerated when '' then ' default ' else ' generated ' end || pg_get_expr(d.adbin, d.adrelid), '')
  from relation c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relkind <> 'i'
  union all
  select 'pg_trigger', c.relname || ' ' || t.tgname,
         replace(replace(pg_get_triggerdef(t.oid), 'CREATE TRIGGER ' || t.tgname || ' ', ''), 'icecore.', '')
         || case t.tgenabled when 'O' then '' when 'A' then '' else ' (disabled)' end
  from relation c join pg_trigger t on t.tgrelid = c.oid where not t.tgisinternal
  union all
  select 'pg_constraint', c.relname || ' ' || k.conname, pg_get_constraintdef(k.oid)
  from relation c join pg_constraint k on k.conrelid = c.oid where k.contype <> 'n'
  union all
  select 'pg_index', c.relname || ' ' || x.relname,
         replace(pg_get_indexdef(i.indexrelid), 'icecore.', '') || case when i.indisvalid and i.indisready then '' else ' (invalid)' end
  from relation c join pg_index i on i.indrelid = c.oid join pg_class x on x.oid = i.indexrelid
  where not (i.indisvalid and i.indisready and exists (select from pg_constraint k where k.conindid = i.indexrelid))
  union all
  select 'pg_rewrite', c.relname || ' ' || r.rulename, pg_get_ruledef(r.oid)
  from relation c join pg_rewrite r on r.ev_class = c.oid
) found (catalog, name, definition) order by 1, 2

-- name: rights --
-- Rights of roles other than the owner, now or by default, to write tables or columns, execute functions or create objects: catalog, name,
-- column of the catalog, role, rights. The server role has the rights that migrations/serving_role.sql grants. There is one server role: if
-- the current role is one, no other is.
with append as (
  select a.grantee from pg_proc p cross join lateral aclexplode(p.proacl) a
  where p.pronamespace = 'icecore'::regnamespace and p.proname = 'append' and a.grantee not in (0, p.proowner)
),
serving as (
  select a.grantee from append a join pg_roles r on r.rolname = current_user
  where a.grantee = r.oid or r.oid not in (select grantee from append)
),
granted (catalog, name, acl_column, grantee, privilege) as (
  select case when g.attname is null then 'pg_class' else 'pg_attribute' end, concat_ws(' ', c.relname, g.attname),
         case when g.attname is null then 'relacl' else 'attacl' end, a.grantee, a.privilege_type
  from pg_class c
  cross join lateral (
    select null::name, c.relacl
    union all
    select t.attname, t.attacl from pg_attribute t where t.attrelid = c.oid and t.attacl is not null and not t.attisdropped
  ) g (attname, acl)
  cross join lateral aclexplode(g.acl) a
  where c.relnamespace = 'icecore'::regnamespace and a.grantee <> c.relowner
  union all
  select 'pg_proc', 'function ' || p.proname, 'proacl', a.grantee, a.privilege_type
  from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
  where p.pronamespace = 'icecore'::regnamespace and a.grantee <> p.proowner
  union all
  select 'pg_namespace', n.nspname, 'nspacl', a.grantee, a.privilege_type
  from pg_namespace n cross join lateral aclexplode(n.nspacl) a
  where n.nspname = 'icecore' and a.grantee <> n.nspowner
  union all
  select 'pg_default_acl', case d.defaclobjtype when 'f' then 'functions' when 'S' then 'sequences' else 'tables' end, 'defaclacl',
         a.grantee, a.privilege_type
  from pg_default_acl d join pg_namespace n on n.nspname = 'icecore' cross join lateral aclexplode(d.defaclacl) a
  where d.defaclrole = n.nspowner and d.defaclnamespace in (0, n.oid) and d.defaclobjtype in ('r', 'S', 'f') and a.grantee <> d.defaclrole
)
select g.catalog, g.name, g.acl_column, case when g.grantee = 0 then 'public' else pg_get_userbyid(g.grantee) end,
       string_agg(distinct lower(g.privilege), ', ' order by lower(g.privilege))
from granted g
where g.privilege in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'EXECUTE', 'CREATE')
  and not (g.grantee in (select grantee from serving) and (g.name, g.privilege) in (
    ('function append', 'EXECUTE'), ('idempotency', 'DELETE'), ('table_parts', 'INSERT'), ('table_parts valid_to', 'UPDATE'),
    ('table_parts', 'DELETE'), ('preloaded_parts', 'INSERT'), ('preloaded_parts abandoned', 'UPDATE'), ('preloaded_parts parts', 'UPDATE'),
    ('preloaded_parts', 'DELETE'), ('part_tombstones', 'DELETE'), ('old_metadata_files begun', 'UPDATE'), ('old_metadata_files', 'DELETE'),
    ('secrets', 'INSERT'), ('secrets', 'UPDATE'), ('sinks', 'INSERT'), ('sinks', 'UPDATE'), ('sink_replays', 'INSERT'),
    ('sink_replays', 'UPDATE'), ('sink_skips', 'INSERT'), ('metrics_reports', 'INSERT'), ('metrics_reports', 'DELETE'), ('warehouse_statistics', 'INSERT'),
    ('warehouse_statistics', 'UPDATE'), ('statistics_tracking notification_id', 'UPDATE'),
    ('search_names', 'INSERT'), ('search_names', 'DELETE'), ('search_terms', 'INSERT'), ('search_terms objects', 'UPDATE'),
    ('search_terms', 'DELETE'), ('search_tracking notification_id', 'UPDATE'),
    ('endpoint_statistics', 'INSERT'), ('endpoint_statistics', 'UPDATE'), ('endpoint_statistics', 'DELETE'),
    ('task_runs', 'INSERT'), ('task_runs', 'UPDATE'), ('task_runs', 'DELETE')))
group by 1, 2, 3, 4 order by 1, 2, 4

-- name: roles --
-- Roles that can write everything without grants on tables: members of pg_write_all_data, and of the roles with a right on the schema also
-- superusers and members of the owner.
select r.rolname, case when r.rolsuper then 'superuser'
                       when pg_has_role(r.oid, n.nspowner, 'member') then 'member of ' || pg_get_userbyid(n.nspowner)
                       else 'member of pg_write_all_data' end
from pg_namespace n
join pg_roles r on r.oid <> n.nspowner and r.rolname <> 'pg_write_all_data'
where n.nspname = 'icecore'
  and (pg_has_role(r.oid, 'pg_write_all_data', 'member') and not r.rolsuper
       or pg_has_role(r.oid, n.nspowner, 'member') and r.oid in (select a.grantee from aclexplode(n.nspacl) a))
order by 1

-- name: owners --
-- Objects that do not belong to the owner of the log.
select c.relname, pg_get_userbyid(c.relowner), pg_get_userbyid(e.relowner)
from pg_class c, pg_class e
where e.oid = 'icecore.events'::regclass and c.relnamespace = 'icecore'::regnamespace and c.relkind = 'r' and c.relowner <> e.relowner
union all
select 'function ' || p.proname, pg_get_userbyid(p.proowner), pg_get_userbyid(e.relowner)
from pg_proc p, pg_class e
where e.oid = 'icecore.events'::regclass and p.pronamespace = 'icecore'::regnamespace and p.proowner <> e.relowner
order by 1
