-- name: insert --
-- Positions are given after the lock is taken, so they follow the order of commits: who has read one has missed none before it.
with locked as materialized (select pg_advisory_xact_lock(%(lock)s))
insert into icecore.metrics_reports (report_id, table_id, warehouse_id, actor, received_at, report_type, report)
select given.* from locked cross join
  unnest(%(report_ids)s::uuid[], %(table_ids)s::uuid[], %(warehouse_ids)s::uuid[], %(actors)s::text[], %(received_at)s::timestamptz[],
         %(report_types)s::text[], %(reports)s::bytea[]) given

-- name: delete_oldest --
-- All but the newest reports, limited in number and bytes.
delete from icecore.metrics_reports where received_at <= greatest(
  (select received_at from icecore.metrics_reports order by received_at desc offset %(reports_max)s limit 1),
  (select max(received_at) from (
     select received_at, sum(octet_length(report)) over (order by received_at desc) as bytes from icecore.metrics_reports) newest
   where bytes > %(bytes_max)s))
