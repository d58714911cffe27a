-- name: functions --
-- The one that was there first is compared; any other signature of the name is not from a migration.
select p.proname || case when lag(p.oid) over (partition by p.proname order by p.oid) is null then ''
                         else '(' || pg_get_function_identity_arguments(p.oid) || ')' end,
       p.prosrc, p.prosecdef, coalesce(array_to_string(p.proconfig, ', '), '')
from pg_proc p where p.pronamespace = 'icecore'::regnamespace order by p.proname, p.oid

-- name: constraints --
-- What refuses a row or a change: triggers, constraints, unique indexes that are no constraint's, and rules, which the schema has none of.
-- Not null stands in the tables' columns and is a constraint only since Postgres 18.
select * from (
  select c.relname, t.tgname,
         replace(replace(pg_get_triggerdef(t.oid), 'CREATE TRIGGER ' || t.tgname || ' ', ''), 'icecore.', '')
         || case t.tgenabled when 'O' then '' when 'A' then '' else ' (disabled)' end as definition
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'icecore'::regnamespace and not t.tgisinternal
  union all
  select c.relname, k.conname, pg_get_constraintdef(k.oid)
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = 'icecore'::regnamespace and k.contype <> 'n'
  union all
  select c.relname, x.relname, replace(pg_get_indexdef(i.indexrelid), 'icecore.', '') || case when i.indisvalid then '' else ' (invalid)' end
  from pg_index i join pg_class x on x.oid = i.indexrelid join pg_class c on c.oid = i.indrelid
  where c.relnamespace = 'icecore'::regnamespace and i.indisunique
    and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
  union all
  select c.relname, r.rulename, pg_get_ruledef(r.oid)
  from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where c.relnamespace = 'icecore'::regnamespace
) found order by 1, 2

-- name: unlogged --
-- Tables that a crash of Postgres empties.
select relname from pg_class
where relnamespace = 'icecore'::regnamespace and relkind in ('r', 'p') and relpersistence <> 'p' order by 1

-- name: rights --
-- Who besides the owner may write what only append, a rebuild and a migration write (migrations/serving_role.sql).
select c.relname, case when a.grantee = 0 then 'public' else pg_get_userbyid(a.grantee) end, string_agg(lower(a.privilege_type), ', ' order by 1)
from pg_class c cross join lateral aclexplode(c.relacl) a
where c.relnamespace = 'icecore'::regnamespace and a.grantee <> c.relowner
  and a.privilege_type in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
  and c.relname in ('events', 'commands', 'claims', 'location_claims', 'names', 'warehouses', 'namespaces', 'tables', 'views', 'proposals',
                    'read_models', 'migrations')
group by 1, 2 order by 1, 2

-- name: owners --
-- What does not belong to the owner of the log.
select c.relname, pg_get_userbyid(c.relowner), pg_get_userbyid(e.relowner)
from pg_class c, pg_class e
where e.oid = 'icecore.events'::regclass and c.relnamespace = 'icecore'::regnamespace and c.relkind = 'r' and c.relowner <> e.relowner
union all
select 'function ' || p.proname, pg_get_userbyid(p.proowner), pg_get_userbyid(e.relowner)
from pg_proc p, pg_class e
where e.oid = 'icecore.events'::regclass and p.pronamespace = 'icecore'::regnamespace and p.proowner <> e.relowner
order by 1
