-- name: batch --
-- The last position and the number of the next reports of a type, without those of the own warehouse.
select max(position), count(*) from (
  select position from icecore.metrics_reports
  where report_type = %(report_type)s and position > %(after)s and warehouse_id is distinct from %(own)s
  order by position limit %(limit)s) batch

-- name: reports --
select position, report_id, received_at, table_id, warehouse_id, actor, report from icecore.metrics_reports
where report_type = %(report_type)s and position > %(after)s and position <= %(to)s and warehouse_id is distinct from %(own)s
order by position limit %(limit)s
