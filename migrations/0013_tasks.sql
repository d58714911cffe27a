-- Tasks: the expiry of a soft-deleted object and the purge of a table, and what was ordered for them.

-- The expiry or the purge of an object, from the position that made it necessary to the one that ended it. The id is that of the first event.
create table icecore.tasks (
  generation integer not null,
  object_id uuid not null,
  from_position bigint not null,
  to_position bigint,                  -- null: it has not ended
  task_id uuid not null,
  warehouse_id uuid not null,
  queue text not null check (queue in ('tabular_expiration', 'tabular_purge')),
  kind text not null,                  -- of the object
  namespace_id uuid not null,
  name text not null,                  -- of the object, when it was dropped
  parent_task_id uuid,                 -- of a purge: the expiry before it
  scheduled_for_ms bigint,             -- of an expiry, milliseconds since 1970-01-01 UTC
  status text not null check (status in ('scheduled', 'success', 'cancelled')),
  primary key (generation, object_id, from_position)
);
create unique index tasks_id_idx on icecore.tasks (generation, task_id);
-- Pages of one queue and status, newest first.
create index tasks_warehouse_idx on icecore.tasks (generation, warehouse_id, queue, status, from_position);

-- What was ordered for a task, and its recorded attempts: one row for each event of its own stream.
create table icecore.task_versions (
  generation integer not null,
  task_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  event text not null check (event in ('scheduled', 'stopped', 'deletion-begun', 'attempt-failed')),
  scheduled_for_ms bigint,             -- of the next attempt
  begun boolean not null,              -- files may have been deleted
  attempts bigint not null,            -- the last recorded attempt that failed
  started_at_ms bigint,
  failed_at_ms bigint,
  error text,
  primary key (generation, task_id, version)
);
-- The leader follows what is ordered while it runs.
create index task_versions_orders_idx on icecore.task_versions (generation, position) where event in ('scheduled', 'stopped');

-- The attempts that run now, with their heartbeats. Unlogged: heartbeats write no WAL, and after a crash nothing runs.
create unlogged table icecore.task_runs (
  task_id uuid primary key,
  leader integer not null,             -- the process id of the session that holds the job's lock: without it the attempt does not run
  attempt bigint not null,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp()
);

alter table icecore.warehouses add column purge_heartbeat_seconds_max bigint;  -- null: the default

-- Tasks from before. Appends wait, so that none comes between.
lock table icecore.events in share mode;
insert into icecore.tasks
  select s.generation, s.object_id, s.from_position, s.to_position, e.event_id, s.warehouse_id, 'tabular_expiration', s.kind, s.namespace_id, s.name,
         null, s.expires_at_ms,
         case when s.to_position is null then 'scheduled' when ended.topic like '%.undropped.%' then 'cancelled' else 'success' end
  from icecore.soft_deleted s
  join icecore.events e on e.notification_id = s.from_position
  left join icecore.events ended on ended.notification_id = s.to_position
  where s.kind <> 'namespace';
insert into icecore.tasks
  select t.generation, t.table_id, t.position, purged.position, t.event_id, t.warehouse_id, 'tabular_purge', 'table', t.namespace_id, t.name,
         case when before.status = 'soft-deleted' then before.event_id end, null,
         case when purged.position is null then 'scheduled' else 'success' end
  from icecore.tables t
  join icecore.tables before on before.generation = t.generation and before.table_id = t.table_id and before.version = t.version - 1
  left join icecore.tables purged on purged.generation = t.generation and purged.table_id = t.table_id and purged.version = t.version + 1
  where t.status = 'purging';
