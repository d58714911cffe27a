-- Statistics of warehouses by the hour: an asynchronous read model, which follows the log (projections/asynchronous/statistics.py).

create table icecore.warehouse_statistics (
  warehouse_id uuid not null,
  hour timestamptz not null,            -- when it begins; hours in which nothing counts have no row
  tables bigint not null,               -- that stand at its end
  views bigint not null,
  namespaces bigint not null,
  commits bigint not null,              -- in it
  updated_at timestamptz not null,      -- when the last event that counts was recorded
  primary key (warehouse_id, hour)
);

-- As the eventsourcing library has it: the position up to which the log is counted, moved in the transaction that counts.
create table icecore.statistics_tracking (
  application_name text primary key,
  notification_id bigint not null
);
insert into icecore.statistics_tracking values ('Icecore', 0);
