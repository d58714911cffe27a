-- The log, its claims, the rows that make a command's outcome known, and `append`, the one way in.

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
  primary key (originator_id, originator_version)
);
alter table icecore.events alter column state set storage external;
create unique index events_notification_id_idx on icecore.events (notification_id);
create unique index events_event_id_idx on icecore.events (event_id);
create index events_recorded_at_idx on icecore.events (recorded_at, notification_id);

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
  primary key (project_id, actor, key)
);
create index idempotency_recorded_at_idx on icecore.idempotency (recorded_at);

-- Names that are taken: of warehouses in a project, of namespaces in their parent, of tables and views in a namespace.
create table icecore.claims (
  kind text not null check (kind in ('warehouse', 'namespace', 'tabular')),
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

-- The generation of the read models that is served and written; a rebuild fills the next one and moves this.
create table icecore.read_models (
  one boolean primary key default true check (one),
  generation integer not null
);
insert into icecore.read_models (generation) values (1);

create function icecore.int4_length(value bytea) returns bytea language sql immutable as $$
  select coalesce(int4send(length(value)) || value, int4send(-1)) $$;

-- The same as domain/recorded.py::chain_hash; this form never changes.
create function icecore.event_hash(previous bytea, e icecore.events) returns bytea language sql stable as $$
  -- The parentheses are for a large state: it is copied once or twice, and not once for every column behind it.
  select sha256((previous
    || icecore.int4_length(uuid_send(e.originator_id))
    || icecore.int4_length(int8send(e.originator_version))
    || icecore.int4_length(convert_to(e.topic, 'UTF8')))
    || (icecore.int4_length(e.state)
    || (icecore.int4_length(int8send(e.notification_id))
    || icecore.int4_length(uuid_send(e.event_id))
    || icecore.int4_length(uuid_send(e.command_id))
    || icecore.int4_length(int8send((extract(epoch from e.recorded_at) * 1000000)::bigint))
    || icecore.int4_length(convert_to(e.actor, 'UTF8'))
    || icecore.int4_length(uuid_send(e.project_id))
    || icecore.int4_length(uuid_send(e.warehouse_id))
    || icecore.int4_length(convert_to(e.request_id, 'UTF8'))
    || icecore.int4_length(convert_to(e.correlation_id, 'UTF8'))
    || icecore.int4_length(uuid_send(e.causation_id))
    || icecore.int4_length(convert_to(e.traceparent, 'UTF8')))))
$$;

-- Every key a location lies in: 's3://b/a/t/' -> {'s3://b/', 's3://b/a/', 's3://b/a/t/', ...}
create function icecore.location_prefixes(key text) returns text[] language sql immutable as $$
  select array_agg(left(key, i)) from generate_series(1, length(key)) i where substr(key, i, 1) = '/' $$;

-- Takes and releases a command's claims, or raises IC409 with what stands in the way.
create function icecore.settle_claims(c jsonb) returns void language plpgsql as $$
declare r jsonb; v_key text; v_owner uuid;
begin
  -- What the command relies on: parents that live, namespaces that hold nothing.
  for r in select * from jsonb_array_elements(c->'alive') loop
    if not exists (select 1 from icecore.claims where owner = (r#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'parent', detail = r#>>'{}';
    end if;
  end loop;
  for r in select * from jsonb_array_elements(c->'empty') loop
    if exists (select 1 from icecore.claims where scope = (r#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = r#>>'{}';
    end if;
  end loop;
  for r in select * from jsonb_array_elements(c->'release') loop
    delete from icecore.claims where kind = r->>0 and scope = (r->>1)::uuid and key = r->>2 and owner = (r->>3)::uuid;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>2;
    end if;
  end loop;
  for r in select * from jsonb_array_elements(c->'take') loop
    insert into icecore.claims (kind, scope, key, owner) values (r->>0, (r->>1)::uuid, r->>2, (r->>3)::uuid)
      on conflict do nothing;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>2;
    end if;
  end loop;
  for r in select * from jsonb_array_elements(c->'release_locations') loop
    delete from icecore.location_claims where key = r->>0 and owner = (r->>1)::uuid;
  end loop;
  for r in select * from jsonb_array_elements(c->'take_locations') loop
    v_key := r->>0; v_owner := (r->>1)::uuid;
    if exists (select 1 from icecore.location_claims l where l.key = any (icecore.location_prefixes(v_key)) and l.owner <> v_owner)
       or exists (select 1 from icecore.location_claims l
                  where l.key >= v_key and l.key < left(v_key, -1) || '0' and l.owner <> v_owner) then  -- '0' follows '/'
      raise exception using errcode = 'IC409', constraint = 'location', detail = v_key;
    end if;
    insert into icecore.location_claims (key, owner) values (v_key, v_owner) on conflict do nothing;
  end loop;
end $$;

-- Appends a batch of commands under one lock, each in its own subtransaction, and answers each by itself:
--   appended   position = its last event's; also where an earlier copy of the command did it
--   recorded   a command without events: a refusal is remembered, and no earlier copy of it can come to effect any more
--   replayed   the Idempotency-Key was used before by the same request: the record
--   key_reused the Idempotency-Key was used before by another request
--   head | parent | not_empty | claim | location | generation | staged   what stands in the way: decide again
--   error      anything else Postgres said, with its code
-- locked_microseconds: the time under the lock until this command was done; 0 where there was nothing to do.
-- batch: JSON array of commands (commands/committer.py writes it); blobs: the bytes they refer to by index, from 1.
-- Read committed, autocommit, lock first: everything below sees what the holder before committed.
create function icecore.append(batch jsonb, blobs bytea[])
returns table (command integer, outcome text, "position" bigint, detail text, status smallint, object_id uuid, version bigint, body bytea,
               locked_microseconds bigint)
language plpgsql volatile
-- Plans made while the tables are small are kept while they grow: every look-up here is by a key.
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  c jsonb; e jsonb; r jsonb; i jsonb;
  v_row icecore.events;
  v_position bigint; v_hash bytea; v_at timestamptz; v_generation integer;
  s_position bigint; s_hash bytea; s_at timestamptz;
  v_started bigint; v_locked timestamptz; v_found record; v_command uuid; v_first bigint; v_recorded timestamptz;
begin
  perform pg_advisory_xact_lock(4936203174);
  v_locked := clock_timestamp();
  select x.notification_id, x.hash, x.recorded_at into v_position, v_hash, v_at
    from icecore.events x order by x.notification_id desc limit 1;
  v_position := coalesce(v_position, 0);
  v_hash := coalesce(v_hash, decode(repeat('00', 32), 'hex'));
  select m.generation into v_generation from icecore.read_models m;
  v_started := v_position;
  command := 0;
  for c in select * from jsonb_array_elements(batch) loop
    command := command + 1;
    locked_microseconds := 0; outcome := 'appended'; detail := null; status := null; object_id := null; version := null; body := null;
    v_command := (c->>'id')::uuid; i := c->'idempotency';
    -- plpgsql variables survive a subtransaction's rollback.
    s_position := v_position; s_hash := v_hash; s_at := v_at;
    begin
      select x.last_position, case when x.first_position is null then 'recorded' else 'appended' end into position, outcome
        from icecore.commands x where x.command_id = v_command;
      if found then
        return next; continue;
      end if;
      outcome := 'appended';
      if i is not null then
        select x.* into v_found from icecore.idempotency x
          where x.project_id = (c->>'project')::uuid and x.actor = c->>'actor' and x.key = (i->>'key')::uuid;
        if found then
          position := v_found.position; detail := v_found.operation; status := v_found.status;
          object_id := v_found.object_id; version := v_found.version; body := v_found.body;
          outcome := case when v_found.request_hash = decode(i->>'hash', 'hex') then 'replayed' else 'key_reused' end;
          return next; continue;
        end if;
      end if;
      if c ? 'generation' and (c->>'generation')::integer <> v_generation then
        raise exception using errcode = 'IC409', constraint = 'generation', detail = v_generation::text;
      end if;
      if c ? 'staged' then
        -- Parts that were written beforehand: unless they were given up meanwhile, they are the table's from here on.
        for r in select * from jsonb_array_elements(c->'staged') loop
          delete from icecore.staged_parts x where x.table_id = (r#>>'{}')::uuid and x.generation = v_generation and not x.given_up;
          if not found then
            raise exception using errcode = 'IC409', constraint = 'staged', detail = r#>>'{}';
          end if;
        end loop;
      end if;
      for r in select * from jsonb_array_elements(c->'heads') loop
        if (select x.event_id from icecore.events x where x.originator_id = (r->>0)::uuid
            order by x.originator_version desc limit 1) is distinct from (r->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'head', detail = r->>0;
        end if;
      end loop;
      perform icecore.settle_claims(c);
      v_first := null;
      v_recorded := greatest(clock_timestamp(), v_at);
      for e in select * from jsonb_array_elements(c->'events') loop
        v_position := v_position + 1;
        v_first := coalesce(v_first, v_position);
        v_row := ((e->>0)::uuid, (e->>1)::bigint, e->>2, blobs[(e->>3)::integer], v_position, (e->>4)::uuid, v_command,
                  v_recorded, c->>'actor', (c->>'project')::uuid, (e->>5)::uuid, c->>'request',
                  c->>'correlation', (c->>'causation')::uuid, c->>'traceparent', null)::icecore.events;
        v_row.hash := icecore.event_hash(v_hash, v_row);
        insert into icecore.events values (v_row.*);
        v_hash := v_row.hash; v_at := v_recorded;
      end loop;
      if c ? 'rows' then
        perform icecore.write_rows(c->'rows', blobs, v_generation, coalesce(v_first, v_position + 1) - 1);
      end if;
      insert into icecore.commands values (v_command, v_first, v_position, v_recorded);
      if i is not null then
        insert into icecore.idempotency values ((c->>'project')::uuid, c->>'actor', (i->>'key')::uuid, v_command,
          decode(i->>'hash', 'hex'), i->>'operation', (i->>'status')::smallint, (i->>'object')::uuid, (i->>'version')::bigint,
          v_position, blobs[(i->>'body')::integer], v_recorded);
      end if;
      position := v_position;
      if v_first is null then
        outcome := 'recorded';
      end if;
    exception
      when sqlstate 'IC409' then
        get stacked diagnostics outcome = constraint_name, detail = pg_exception_detail;
        v_position := s_position; v_hash := s_hash; v_at := s_at; position := v_position;
      when others then
        get stacked diagnostics outcome = returned_sqlstate, detail = message_text;
        detail := outcome || ': ' || detail; outcome := 'error';
        v_position := s_position; v_hash := s_hash; v_at := s_at; position := v_position;
    end;
    locked_microseconds := extract(epoch from clock_timestamp() - v_locked) * 1000000;
    return next;
  end loop;
  if v_position > v_started then
    -- One per batch: Postgres holds a cluster-wide lock from before a notifying commit until after its flush.
    perform pg_notify('events', v_position::text);
  end if;
end $$;
