-- Calls of each operation by the hour. Requests are not events, so these rows are not derived from the log.

create table icecore.endpoint_statistics (
  project_id uuid not null,
  hour timestamptz not null,            -- the start of the hour
  warehouse_id uuid not null,           -- nil: of no warehouse
  http_route text not null,             -- the method and the path with its placeholders
  status_code smallint not null,
  count bigint not null,
  created_at timestamptz not null,      -- of the first call in the hour
  updated_at timestamptz not null,      -- of the last one
  primary key (project_id, hour, warehouse_id, http_route, status_code)
);
create index endpoint_statistics_hour_idx on icecore.endpoint_statistics (hour);
