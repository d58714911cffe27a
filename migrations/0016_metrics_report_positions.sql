-- Metrics reports get a position, so that the pipeline lands each once, and what it needs to know of them without reading them.

alter table icecore.metrics_reports
  add column position bigint generated always as identity,  -- in the order of commits, with gaps
  add column warehouse_id uuid,
  add column actor text,                -- the principal that sent the report; null: received before this migration
  add column report_type text;          -- scan-report, commit-report, other
-- Reports are JSON in UTF-8. Their type is in ASCII, and in Latin-1 any bytes are text.
update icecore.metrics_reports r set
  report_type = coalesce(substring(convert_from(r.report, 'LATIN1') from '"report-type"\s*:\s*"(scan-report|commit-report)"'), 'other'),
  warehouse_id = (select t.warehouse_id from icecore.tables t join icecore.read_models m on t.generation = m.generation
                  where t.table_id = r.table_id limit 1);
alter table icecore.metrics_reports alter column report_type set not null;
create index metrics_reports_type_idx on icecore.metrics_reports (report_type, position);
