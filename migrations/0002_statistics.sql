-- Hourly statistics of warehouses: an asynchronous read model (projections/asynchronous/statistics.py).

create table icecore.warehouse_statistics (
  warehouse_id uuid not null,
  hour timestamptz not null,            -- the start of the hour; hours without counted events have no row
  tables bigint not null,               -- number at the end of the hour
  views bigint not null,
  namespaces bigint not null,
  commits bigint not null,              -- number in the hour
  updated_at timestamptz not null,      -- when the last counted event was recorded
  primary key (warehouse_id, hour)
);

-- The tracking table of the eventsourcing library: the position up to which events are counted, updated in the transaction that counts.
create table icecore.statistics_tracking (
  application_name text primary key,
  notification_id bigint not null
);
insert into icecore.statistics_tracking values ('Icecore', 0);
