-- name: insert --
-- Positions are given after the lock is taken, so they follow the order of commits: who has read one has missed none before it.
with locked as materialized (select pg_advisory_xact_lock(%(lock)s))
insert into icecore.metrics_reports (report_id, table_id, warehouse_id, actor, received_at, report_type, report)
select given.* from locked cross join
  unnest(%(report_ids)s::uuid[], %(table_ids)s::uuid[], %(warehouse_ids)s::uuid[], %(actors)s::text[], %(received_at)s::timestamptz[],
         %(report_types)s::text[], %(reports)s::bytea[]) given

-- name: delete_oldest --
-- All but the newest reports, limited in number and bytes. If there are too many, those go first that are beyond half of the limit in
-- their warehouse: one warehouse cannot push out the reports of others.
delete from icecore.metrics_reports where report_id in (
  select report_id from (
    select report_id, row_number() over newest as number, sum(size) over newest as bytes from (
      select report_id, received_at, octet_length(report) as size,
        row_number() over of_warehouse > %(reports_max)s / 2 or sum(octet_length(report)) over of_warehouse > %(bytes_max)s / 2 as beyond_half
      from icecore.metrics_reports
      window of_warehouse as (partition by warehouse_id order by received_at desc, report_id desc)) sized
    window newest as (order by beyond_half, received_at desc, report_id desc)) ranked
  where number > %(reports_max)s or bytes > %(bytes_max)s)
