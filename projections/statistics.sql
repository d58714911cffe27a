-- name: tracking --
select application_name, notification_id from icecore.statistics_tracking order by application_name

-- name: page --
-- The position and the hours of a warehouse, newest first; one row without an hour if there are none.
select t.notification_id, s.hour, s.tables, s.views, s.namespaces, s.commits, s.updated_at
from icecore.statistics_tracking t
left join lateral (
  select * from icecore.warehouse_statistics
  where warehouse_id = %(warehouse_id)s and hour < coalesce(%(before)s::timestamptz, 'infinity')
  order by hour desc limit %(limit)s
) s on true
where t.application_name = 'Icecore'
order by s.hour desc

-- name: every --
select warehouse_id, hour, tables, views, namespaces, commits, updated_at from icecore.warehouse_statistics

-- name: add --
-- Adds to an hour of a warehouse. The numbers of objects continue from the hour before.
insert into icecore.warehouse_statistics as s (warehouse_id, hour, tables, views, namespaces, commits, updated_at)
select %(warehouse_id)s, %(hour)s, coalesce(l.tables, 0) + %(tables)s, coalesce(l.views, 0) + %(views)s,
       coalesce(l.namespaces, 0) + %(namespaces)s, %(commits)s, %(updated_at)s
from (select 1) one
left join lateral (
  select * from icecore.warehouse_statistics where warehouse_id = %(warehouse_id)s and hour < %(hour)s order by hour desc limit 1
) l on true
on conflict (warehouse_id, hour) do update
set tables = s.tables + %(tables)s, views = s.views + %(views)s, namespaces = s.namespaces + %(namespaces)s,
    commits = s.commits + %(commits)s, updated_at = %(updated_at)s

-- name: remove --
delete from icecore.warehouse_statistics
