-- name: functions --
select p.proname, p.prosrc, p.prosecdef, coalesce(array_to_string(p.proconfig, ', '), '')
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
