-- The schema of release 0.1: the log and what makes a command's outcome known, claims, the read models, and what stands beside the log.
-- Functions are in functions/, but for the one that the triggers of the log call.

-- The log

-- A superset of the eventsourcing library's table: its five columns keep their names, ours are NOT NULL without defaults,
-- which shuts out the library's own plain INSERT on purpose.
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
  context text,                        -- what else a command was run with: canonical JSON, null until it is used
  primary key (originator_id, originator_version)
);
alter table icecore.events alter column state set storage external;
create unique index events_notification_id_idx on icecore.events (notification_id);
create unique index events_event_id_idx on icecore.events (event_id);
create index events_recorded_at_idx on icecore.events (recorded_at, notification_id);

-- For the eventsourcing library.
create type icecore.stored_event_uuid as (originator_id uuid, originator_version bigint, topic text, state bytea);

create function icecore.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'the log is append-only' using errcode = 'IC000';
end $$;
create trigger events_append_only before update or delete on icecore.events
  for each row execute function icecore.refuse_change();
create trigger events_no_truncate before truncate on icecore.events
  for each statement execute function icecore.refuse_change();

-- One row per command, written with its events: whoever asks after a lost answer finds it by its id.
create table icecore.commands (
  command_id uuid primary key,
  first_position bigint,               -- null: a refusal, which has no events
  last_position bigint not null,       -- of a refusal: the head of the log when it was recorded
  recorded_at timestamptz not null
);
create index commands_last_position_idx on icecore.commands (last_position) where first_position is not null;

-- What a request with an Idempotency-Key was answered, written with its events.
create table icecore.idempotency (
  project_id uuid not null,
  actor text not null,
  key uuid not null,
  command_id uuid not null,
  request_hash bytea not null,
  operation text not null,
  status smallint not null,
  object_id uuid,                      -- with version: the row that gives the answer's body
  version bigint,
  position bigint not null,
  body bytea,                          -- only where no row gives it
  recorded_at timestamptz not null,
  hash bytea not null,                 -- ties the row to the log at its position (icecore.idempotency_hash)
  primary key (project_id, actor, key)
);
create index idempotency_recorded_at_idx on icecore.idempotency (recorded_at);

-- Claims: folded from the log, checked and taken by `append`

-- Names that are taken: of warehouses in a project, of namespaces in their parent, of tables and views in a namespace. An open
-- proposal claims the key of its change.
create table icecore.claims (
  kind text not null check (kind in ('warehouse', 'namespace', 'tabular', 'proposal')),
  scope uuid not null,
  key text collate "C" not null,
  owner uuid not null,
  primary key (kind, scope, key)
);
create index claims_owner_idx on icecore.claims (owner);
create index claims_scope_idx on icecore.claims (scope);

-- Places that are taken: none equals, contains or lies inside another's. Keys end in '/'.
create table icecore.location_claims (
  key text collate "C" primary key,
  owner uuid not null
);
create index location_claims_owner_idx on icecore.location_claims (owner);

-- The read models: temporal, so that now and then are one query in two forms. Every row belongs to a generation.
-- Rows of one version are never changed; what ends is closed by the position (names) or the stream version (parts) it ends at.

-- The generation of the read models that is served and written; a rebuild fills the next one and moves this.
create table icecore.read_models (
  one boolean primary key default true check (one),
  generation integer not null
);
insert into icecore.read_models (generation) values (1);

-- What an object was called and where, from one position to another.
create table icecore.names (
  generation integer not null,
  object_id uuid not null,
  from_position bigint not null,
  to_position bigint,                  -- null: still so
  parent_id uuid not null,
  kind text not null check (kind in ('warehouse', 'namespace', 'table', 'view')),
  name text not null,
  name_key text collate "C" not null,
  primary key (generation, object_id, from_position)
);
create unique index names_now_idx on icecore.names (generation, parent_id, kind, name_key) where to_position is null;
create index names_then_idx on icecore.names (generation, parent_id, kind, name_key, from_position);

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
  properties bytea not null,
  primary key (generation, namespace_id, version)
);
create index namespaces_position_idx on icecore.namespaces (generation, namespace_id, position);

-- A table's head at each version; its parts stand beside it.
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
  locations text[] not null,           -- the location claims it holds
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
  valid_to bigint,                     -- stream version it no longer holds at; null: still holds
  snapshot_id bigint,
  body bytea not null,
  primary key (generation, table_id, kind, ordinal)
);
alter table icecore.table_parts alter column body set storage external;
-- What a commit closes leaves a dead entry in the index of what is open; a load walks over them until they are vacuumed away.
alter table icecore.table_parts set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create index table_parts_now_idx on icecore.table_parts (generation, table_id, kind, ordinal) where valid_to is null;

-- Parts that one version closed, too many for an append: every reader takes them for closed at `valid_to`, a job writes it into them
-- (commands/tables/close_removed_parts.py) and removes this row.
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

-- Changes that an approval hook held back; stale where what one was held for has changed since.
create table icecore.proposals (
  generation integer not null,
  proposal_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  status text not null check (status in ('open', 'approved', 'rejected', 'expired', 'stale')),
  operation text not null,
  command_key text not null,           -- of the change: one proposal of a key is open at a time
  hook text not null,
  reason text not null,
  expires_at_ms bigint not null,       -- milliseconds since 1970-01-01 UTC
  document bytea not null,             -- the command that waits, what it concerns, who decided
  primary key (generation, proposal_id, version)
);
alter table icecore.proposals alter column document set storage external;
create index proposals_opened_idx on icecore.proposals (generation, proposal_id) where version = 1;

-- Beside the log: a rebuild leaves these as they are

-- Tables to come whose parts are written before the append that gives them a head: nobody reads parts without one. The append removes
-- the row; what is left of an append that did not come to effect is given up, and removed with its parts.
create table icecore.preloaded_parts (
  table_id uuid primary key,
  generation integer not null,
  staged_at timestamptz not null,
  given_up boolean not null default false,  -- no append can come to effect on it any more
  parts bigint                         -- how many are written and durable; null until all are: a crash may lose what was written before
);

-- Metadata files that commits removed from their tables' metadata logs and that are still to be deleted: no table is registered from them.
create table icecore.old_metadata_files (
  key text not null primary key,  -- the file as a location claim key
  table_id uuid not null,
  warehouse_id uuid not null,
  location text not null,
  begun boolean not null default false  -- a store was asked to delete it, or is about to be: it may be gone at any time from then on
);
-- Of no table, and never deleted: a plan made for a table without any page prices a scan of it at nothing.
insert into icecore.old_metadata_files values ('', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', '');

-- Where a table empties, vacuum would give its pages back under a lock that keeps every append waiting, and a plan made for no page at all
-- prices a scan at nothing.
alter table icecore.idempotency set (vacuum_truncate = false);
alter table icecore.preloaded_parts set (vacuum_truncate = false);
alter table icecore.part_tombstones set (vacuum_truncate = false);
alter table icecore.old_metadata_files set (vacuum_truncate = false);

-- Metrics reports as clients sent them: bounded, outside the log, never in the way.
create table icecore.metrics_reports (
  report_id uuid primary key,
  table_id uuid not null,
  received_at timestamptz not null,
  report bytea not null
);
create index metrics_reports_received_at_idx on icecore.metrics_reports (received_at);

-- Secrets (storage credentials): outside the log, where only their ids go. Encrypted by security/secrets.py; ordinary UPDATE is allowed
-- here, because to destroy one is to blank it.
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

-- Sinks: how far each has told the log, who leads it, what operators asked of it. None of it is touched by a commit.
create table icecore.sinks (
  name text primary key,
  epoch bigint not null default 0,      -- counts its leaders: what an earlier one writes is refused
  position bigint not null,             -- everything up to it is told, or passed over by a filter or a recorded skip
  broker_sequence bigint not null default 0,       -- the broker's own number of the last message it acknowledged; 0: none, or none that counts
  leader text,
  led_since timestamptz,
  last_error text,
  last_error_at timestamptz,
  blocked_position bigint,              -- the event the sink refuses
  lost_position bigint,                 -- up to here the broker acknowledged what it does not hold any more; until a replay brings it back
  updated_at timestamptz not null default now()
);

-- An event a sink may pass over, by an operator's word.
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
  replayed_position bigint not null,        -- everything from from_position to it is told again
  replayed_events bigint not null default 0,
  requested_at timestamptz not null default now(),
  finished_at timestamptz,
  cancelled_at timestamptz,
  check (from_position >= 1 and to_position >= from_position)
);
create index sink_replays_open_idx on icecore.sink_replays (sink, requested_at) where finished_at is null and cancelled_at is null;
