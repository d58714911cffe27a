-- name: batch --
-- Of the next reports of a type, without those of the pipeline's warehouse: the position and number of every %(range_reports)s-th, and of the last.
-- Positions have large gaps: they are given to reports of all types, and old reports are deleted.
select position, number from (
  select position, row_number() over (order by position) as number, count(*) over () as count from (
    select position from icecore.metrics_reports
    where report_type = %(report_type)s and position > %(after)s and warehouse_id is distinct from %(pipeline_warehouse)s
    order by position limit %(limit)s) batch) numbered
where number %% %(range_reports)s = 0 or number = count order by number

-- name: last_position --
-- Of all reports. The newest are never deleted.
select max(position) from icecore.metrics_reports

-- name: reports --
select position, report_id, received_at, table_id, warehouse_id, actor, report from icecore.metrics_reports
where report_type = %(report_type)s and position > %(after)s and position <= %(to)s and warehouse_id is distinct from %(pipeline_warehouse)s
order by position limit %(limit)s
