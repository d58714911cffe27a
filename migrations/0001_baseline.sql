-- The schema of release 0.1: the log, the outcomes of commands, claims, the read models, and tables that are not derived from the log.
-- Functions are in functions/, except for the trigger function of the log.

-- The log

-- Contains the five columns of the eventsourcing library's table under their names. The other columns are NOT NULL without defaults,
-- so that the library's own INSERT fails.
create table icecore.events (
  originator_id uuid not null,
  originator_version bigint not null check (originator_version > 0),
  topic text not null,
  state bytea not null,
  notification_id bigint not null check (notification_id > 0),
  event_id uuid not null,
  command_id uuid not null,
  recorded_at timestamptz not null,
  actor text not null,
  project_id uuid not null,
  warehouse_id uuid not null,
  request_id text not null,
  correlation_id text,
  causation_id uuid,
  traceparent text,
  hash bytea not null,
  context text,                        -- further context of the command as canonical JSON; null if unused
  primary key (originator_id, originator_version)
);
alter table icecore.events alter column state set storage external;
create unique index events_notification_id_idx on icecore.events (notification_id);
create unique index events_event_id_idx on icecore.events (event_id);
create index events_recorded_at_idx on icecore.events (recorded_at, notification_id);

-- The eventsourcing library uses this type.
create type icecore.stored_event_uuid as (originator_id uuid, originator_version bigint, topic text, state bytea);

create function icecore.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'the log is append-only' using errcode = 'IC000';
end $$;
create trigger events_append_only before update or delete on icecore.events
  for each row execute function icecore.refuse_change();
create trigger events_no_truncate before truncate on icecore.events
  for each statement execute function icecore.refuse_change();

-- One row per command, written with its events. The outcome of a command whose response was lost is looked up here by its id.
create table icecore.commands (
  command_id uuid primary key,
  first_position bigint,               -- null for a command without events
  last_position bigint not null,       -- of a command without events: the last position of the log when it was recorded
  recorded_at timestamptz not null
);
create index commands_last_position_idx on icecore.commands (last_position) where first_position is not null;

-- The response to each request with an Idempotency-Key, written with its events.
create table icecore.idempotency (
  project_id uuid not null,
  actor text not null,
  key uuid not null,
  command_id uuid not null,
  request_hash bytea not null,
  operation text not null,
  status smallint not null,
  object_id uuid,                      -- with version: the row from which the response body is built
  version bigint,
  position bigint not null,
  body bytea,                          -- only if no row contains it
  recorded_at timestamptz not null,
  hash bytea not null,                 -- ties the row to the log at its position (icecore.idempotency_hash)
  primary key (project_id, actor, key)
);
create index idempotency_recorded_at_idx on icecore.idempotency (recorded_at);

-- Claims: derived from the log, checked and written by `append`

-- Claimed names: of warehouses in a project, of namespaces in their parent, of tables and views in a namespace. An open proposal
-- claims the key of its change.
create table icecore.claims (
  kind text not null check (kind in ('warehouse', 'namespace', 'tabular', 'proposal')),
  scope uuid not null,
  key text collate "C" not null,
  owner uuid not null,
  primary key (kind, scope, key)
);
create index claims_owner_idx on icecore.claims (owner);
create index claims_scope_idx on icecore.claims (scope);

-- Claimed locations: none is equal to, contains or is inside a location of another owner, except that locations of tables and views may
-- be inside a namespace's. Keys end in '/'.
create table icecore.location_claims (
  key text collate "C" primary key,
  owner uuid not null,
  kind text not null check (kind in ('tabular', 'namespace'))
);
create index location_claims_owner_idx on icecore.location_claims (owner);

-- The read models are temporal: the current and past states are read by the same queries. Every row belongs to a generation.
-- The row of a version is never changed. A name ends at a position, a part at a version of its stream.

-- The generation of the read models that is read and written. A rebuild fills the next one, then updates this row.
create table icecore.read_models (
  one boolean primary key default true check (one),
  generation integer not null
);
insert into icecore.read_models (generation) values (1);

-- The name and parent of each object from one position to another.
create table icecore.names (
  generation integer not null,
  object_id uuid not null,
  from_position bigint not null,
  to_position bigint,                  -- null: current
  parent_id uuid not null,
  kind text not null check (kind in ('warehouse', 'namespace', 'table', 'view')),
  name text not null,
  name_key text collate "C" not null,
  primary key (generation, object_id, from_position)
);
create unique index names_current_idx on icecore.names (generation, parent_id, kind, name_key) where to_position is null;
create index names_as_of_idx on icecore.names (generation, parent_id, kind, name_key, from_position);

create table icecore.warehouses (
  generation integer not null,
  warehouse_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  project_id uuid not null,
  name text not null,
  name_key text not null,
  storage_profile bytea not null,
  secret_ref uuid,
  exact_names boolean not null,
  primary key (generation, warehouse_id, version)
);

create table icecore.namespaces (
  generation integer not null,
  namespace_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  parent_id uuid not null,
  name text not null,
  name_key text not null,
  status text not null check (status in ('live', 'dropped')),
  location text not null,              -- the same in every version, also in the properties
  location_key text not null,
  properties bytea not null,
  primary key (generation, namespace_id, version)
);
create index namespaces_position_idx on icecore.namespaces (generation, namespace_id, position);

-- The head of a table at each version. Its parts are in table_parts.
create table icecore.tables (
  generation integer not null,
  table_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  namespace_id uuid not null,
  name text not null,
  name_key text not null,
  status text not null check (status in ('live', 'dropped', 'purging', 'purged')),
  metadata_location text not null,
  locations text[] not null,           -- the locations that the table claims
  next_ordinal bigint not null,
  head bytea not null,
  primary key (generation, table_id, version)
);
alter table icecore.tables alter column head set storage external;
create index tables_position_idx on icecore.tables (generation, table_id, position);
create index tables_purging_idx on icecore.tables (generation, table_id, version) where status = 'purging';

create table icecore.table_parts (
  generation integer not null,
  table_id uuid not null,
  kind smallint not null,              -- 1 + the index in domain/documents.py::TABLE_KINDS
  ordinal bigint not null,
  valid_from bigint not null,          -- stream version
  valid_to bigint,                     -- first stream version without the part; null: current
  snapshot_id bigint,
  body bytea not null,
  primary key (generation, table_id, kind, ordinal)
);
alter table icecore.table_parts alter column body set storage external;
-- Each closed part leaves a dead entry in table_parts_current_idx, which slows loads until vacuum removes it.
alter table icecore.table_parts set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create index table_parts_current_idx on icecore.table_parts (generation, table_id, kind, ordinal) where valid_to is null;

-- Parts that one version closed, if they are too many for an append. Readers treat them as closed at `valid_to`. A job sets `valid_to` in
-- their rows and removes this row (commands/tables/close_removed_parts.py).
create table icecore.part_tombstones (
  generation integer not null,
  table_id uuid not null,
  kind smallint not null,
  valid_to bigint not null,
  ordinals int8multirange not null,
  primary key (generation, table_id, kind, valid_to)
);

create table icecore.views (
  generation integer not null,
  view_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  namespace_id uuid not null,
  name text not null,
  name_key text not null,
  status text not null check (status in ('live', 'dropped')),
  metadata_location text not null,
  locations text[] not null,
  document bytea not null,
  primary key (generation, view_id, version)
);
alter table icecore.views alter column document set storage external;
create index views_position_idx on icecore.views (generation, view_id, position);

-- Changes that an approval hook held. A proposal is stale if an object that it changes was changed since.
create table icecore.proposals (
  generation integer not null,
  proposal_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  status text not null check (status in ('open', 'approved', 'rejected', 'expired', 'stale')),
  operation text not null,
  command_key text not null,           -- hash of the change: at most one open proposal has it
  hook text not null,
  reason text not null,
  expires_at_ms bigint not null,       -- milliseconds since 1970-01-01 UTC
  document bytea not null,             -- the held command, the objects it changes, who decided
  primary key (generation, proposal_id, version)
);
alter table icecore.proposals alter column document set storage external;
create index proposals_opened_idx on icecore.proposals (generation, proposal_id) where version = 1;

-- Not derived from the log: a rebuild does not change these tables

-- Tables whose parts are written before the append that writes their head. Parts without a head are not read. The append removes the row.
-- If the append fails, a job marks the row as abandoned and removes it together with the parts.
create table icecore.preloaded_parts (
  table_id uuid primary key,
  generation integer not null,
  registered_at timestamptz not null,
  abandoned boolean not null default false,  -- no append can use the parts any more
  parts bigint                         -- number of durable parts; null until all are durable, because a crash may lose some before
);

-- Metadata files that commits removed from metadata logs and that will be deleted. No table can be registered from them.
create table icecore.old_metadata_files (
  key text not null primary key,  -- the file as a location claim key
  table_id uuid not null,
  warehouse_id uuid not null,
  location text not null,
  begun boolean not null default false  -- a delete may have been sent to the store, so the file may be missing from now on
);
-- A row of no table that is never deleted: for a table without pages, the planner estimates a sequential scan to cost nothing.
insert into icecore.old_metadata_files values ('', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', '');

-- When such a table becomes empty, vacuum would truncate it under a lock that blocks every append, and the planner would estimate a
-- sequential scan to cost nothing.
alter table icecore.idempotency set (vacuum_truncate = false);
alter table icecore.preloaded_parts set (vacuum_truncate = false);
alter table icecore.part_tombstones set (vacuum_truncate = false);
alter table icecore.old_metadata_files set (vacuum_truncate = false);

-- Metrics reports as clients sent them, limited in number and size.
create table icecore.metrics_reports (
  report_id uuid primary key,
  table_id uuid not null,
  received_at timestamptz not null,
  report bytea not null
);
create index metrics_reports_received_at_idx on icecore.metrics_reports (received_at);

-- Storage credentials, encrypted by security/secrets.py. The log contains only their ids. A secret is destroyed by an UPDATE that removes
-- its ciphertext.
create table icecore.secrets (
  id uuid primary key,
  project_id uuid not null,
  version integer not null default 1 check (version >= 1),  -- counts encryptions of this row
  key_id text not null,                -- fingerprint of the key that wrote it
  nonce bytea check (octet_length(nonce) = 12),
  ciphertext bytea,
  created_at timestamptz not null default now(),
  destroyed_at timestamptz,
  check ((destroyed_at is null) = (ciphertext is not null)),
  check ((nonce is null) = (ciphertext is null))
);
comment on table icecore.secrets is 'AES-256-GCM; additional data binds each row to its table, id, version and project';

-- Sinks: their position, leader and errors. Commits do not write here.
create table icecore.sinks (
  name text primary key,
  epoch bigint not null default 0,      -- increases with each leader; writes of an earlier leader are refused
  position bigint not null,             -- every event up to it was published, filtered out or skipped
  broker_sequence bigint not null default 0,       -- the broker's sequence number of the last acknowledged message; 0: none
  leader text,
  led_since timestamptz,
  last_error text,
  last_error_at timestamptz,
  blocked_position bigint,              -- the event that the sink rejects
  lost_position bigint,                 -- the broker lost acknowledged events up to here; null after a replay
  updated_at timestamptz not null default now()
);

-- Events that an operator lets a sink skip.
create table icecore.sink_skips (
  sink text not null,
  position bigint not null,
  event_id uuid not null,
  reason text not null check (reason <> ''),
  actor text not null,
  skipped_at timestamptz not null default now(),
  primary key (sink, position)
);
create trigger sink_skips_append_only before update or delete on icecore.sink_skips
  for each row execute function icecore.refuse_change();

create table icecore.sink_replays (
  replay_id uuid primary key,
  sink text not null,
  from_position bigint not null,
  to_position bigint not null,
  filter jsonb not null,
  replayed_position bigint not null,        -- every event from from_position to it was published again
  replayed_events bigint not null default 0,
  requested_at timestamptz not null default now(),
  finished_at timestamptz,
  cancelled_at timestamptz,
  check (from_position >= 1 and to_position >= from_position)
);
create index sink_replays_open_idx on icecore.sink_replays (sink, requested_at) where finished_at is null and cancelled_at is null;
