-- name: keep --
insert into icecore.metrics_reports (report_id, table_id, received_at, report)
select * from unnest(%(report_ids)s::uuid[], %(table_ids)s::uuid[], %(received_at)s::timestamptz[], %(reports)s::bytea[])

-- name: forget --
-- All but the newest reports, limited in number and bytes.
delete from icecore.metrics_reports where received_at <= greatest(
  (select received_at from icecore.metrics_reports order by received_at desc offset %(reports_max)s limit 1),
  (select max(received_at) from (
     select received_at, sum(octet_length(report)) over (order by received_at desc) as bytes from icecore.metrics_reports) newest
   where bytes > %(bytes_max)s))
