-- Appends a batch of commands under one lock, each in its own subtransaction, and returns one row per command. `outcome` is:
--   appended   position = that of its last event; also if an earlier copy of the command was appended
--   recorded   a command without events was recorded; no earlier copy of it can be appended any more
--   replayed   the Idempotency-Key was already used by the same request; the row contains the record
--   key_reused the Idempotency-Key was already used by a different request
--   warehouse_changed  the warehouse has changed since the command was decided; decide again
--   version_conflict | parent | not_empty | claim | generation | preloaded   the conflict; decide again
--   location   another object claims the location in `detail`; the command is refused
--   error      any other error of Postgres, with its code
-- waited_microseconds: how long the call waited for the lock; the same in every row.
-- batch: JSON array of commands (commands/execution/submission.py writes it); blobs: the bytes they refer to by index, from 1.
-- icecore.events has the eventsourcing library's names: originator_id is the stream, originator_version its version, notification_id the
-- position, state the encoded event.
-- Runs in its own transaction in read committed and takes the lock first, so that it sees all that the previous holder committed.
create or replace function icecore.append(batch jsonb, blobs bytea[])
returns table (command integer, outcome text, "position" bigint, detail text, status smallint, object_id uuid, version bigint, body bytea,
               waited_microseconds bigint)
language plpgsql volatile security definer
-- Runs with the owner's rights, so that no other role needs them. Names are not resolved in the caller's schemas.
set search_path = pg_catalog, pg_temp
-- Plans made while the tables are small are kept while they grow, so a look-up by key must always cost less than reading one page.
-- Costs are set instead of enable_seqscan = off, which makes a scan without an index so expensive that Postgres 14 to 17 compile it (JIT).
set seq_page_cost = 1000
set random_page_cost = 0
as $$
#variable_conflict use_column
declare
  c jsonb; e jsonb; r jsonb; i jsonb;
  v_row icecore.events; v_key icecore.idempotency;
  v_position bigint; v_hash bytea; v_at timestamptz; v_generation integer;
  s_position bigint; s_hash bytea; s_at timestamptz;
  v_started bigint; v_called timestamptz := clock_timestamp(); v_found record; v_command uuid; v_first bigint; v_recorded timestamptz;
  v_depends_on_earlier boolean := false;
  v_warehouse uuid; v_warehouse_event uuid;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    -- The statements below would not see what the previous holder of the lock wrote.
    raise exception using errcode = '55000', message = 'icecore.append runs in transactions that are read committed';
  end if;
  perform pg_advisory_xact_lock(4936203174);
  waited_microseconds := extract(epoch from clock_timestamp() - v_called) * 1000000;
  select x.notification_id, x.hash, x.recorded_at into v_position, v_hash, v_at
    from icecore.events x order by x.notification_id desc limit 1;
  v_position := coalesce(v_position, 0);
  v_hash := coalesce(v_hash, decode(repeat('00', 32), 'hex'));
  select m.generation into v_generation from icecore.read_models m where m.one;
  v_started := v_position;
  for n in 0 .. jsonb_array_length(batch) - 1 loop
    c := batch->n; command := n + 1;
    outcome := 'appended'; detail := null; status := null; object_id := null; version := null; body := null;
    v_command := (c->>'id')::uuid; i := c->'idempotency';
    -- plpgsql variables survive a subtransaction's rollback.
    s_position := v_position; s_hash := v_hash; s_at := v_at;
    begin
      select x.last_position, case when x.first_position is null then 'recorded' else 'appended' end into position, outcome
        from icecore.commands x where x.command_id = v_command;
      if found then
        v_depends_on_earlier := true;
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
          v_depends_on_earlier := true;
          return next; continue;
        end if;
      end if;
      if c ? 'warehouse_head' then
        -- Looked up once for a batch, because most commands of a batch are on one warehouse.
        if v_warehouse is distinct from (c->'warehouse_head'->>0)::uuid then
          v_warehouse := (c->'warehouse_head'->>0)::uuid;
          v_warehouse_event := (select x.event_id from icecore.events x where x.originator_id = v_warehouse
                                order by x.originator_version desc limit 1);
        end if;
        if v_warehouse_event is distinct from (c->'warehouse_head'->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'warehouse_changed', detail = v_warehouse::text;
        end if;
      end if;
      if c ? 'no_warehouse_events_since' then
        if exists (select 1 from icecore.events x
                   where x.notification_id > (c->'no_warehouse_events_since'->>1)::bigint and x.warehouse_id = (c->'no_warehouse_events_since'->>0)::uuid
                     and x.topic like coalesce(c->'no_warehouse_events_since'->>2, '%')) then
          raise exception using errcode = 'IC409', constraint = 'warehouse_changed', detail = c->'no_warehouse_events_since'->>0;
        end if;
      end if;
      if c ? 'generation' and (c->>'generation')::integer <> v_generation then
        raise exception using errcode = 'IC409', constraint = 'generation', detail = v_generation::text;
      end if;
      if c ? 'preloaded' then
        -- Parts that were written before the append, as (table, number): the table owns them from here on, unless they were abandoned.
        -- The number is recorded when all of them are durable.
        for k in 0 .. jsonb_array_length(c->'preloaded') - 1 loop
          r := c->'preloaded'->k;
          delete from icecore.preloaded_parts x where x.table_id = (r->>0)::uuid and x.generation = v_generation and not x.abandoned
            and x.parts = (r->>1)::bigint;
          if not found then
            raise exception using errcode = 'IC409', constraint = 'preloaded', detail = r->>0;
          end if;
        end loop;
      end if;
      if c ? 'file_read' then
        -- A file was read, as (position, location). No table claimed its location then, but a purge that ended since may have deleted it.
        r := c->'file_read';
        -- Materialized, because a join may be planned as a scan of all events in the order of their streams.
        if exists (with purged as materialized (
                     select x.originator_id, x.originator_version from icecore.events x
                     where x.notification_id > (r->>0)::bigint and x.topic = 'table.purged.v1')
                   select 1 from purged p
                   join icecore.tables t
                     on t.generation = v_generation and t.table_id = p.originator_id and t.version = p.originator_version
                   where t.locations && icecore.location_prefixes(r->>1)) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>1;
        end if;
        -- The file must also not be waiting for its deletion because a commit removed it from its table's metadata log.
        if exists (select 1 from icecore.old_metadata_files x where x.key = r->>1) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>1;
        end if;
      end if;
      for k in 0 .. jsonb_array_length(c->'expected_heads') - 1 loop
        r := c->'expected_heads'->k;
        if (select x.event_id from icecore.events x where x.originator_id = (r->>0)::uuid
            order by x.originator_version desc limit 1) is distinct from (r->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'version_conflict', detail = r->>0;
        end if;
      end loop;
      if c ? 'claims' then
        perform icecore.write_claims(c->'claims');
      end if;
      v_first := null;
      -- Later than all earlier times, so that the state at a time up to the last event's never changes.
      v_recorded := greatest(clock_timestamp(), v_at + interval '1 microsecond');
      for k in 0 .. jsonb_array_length(c->'events') - 1 loop
        e := c->'events'->k;
        v_position := v_position + 1;
        v_first := coalesce(v_first, v_position);
        v_row := ((e->>0)::uuid, (e->>1)::bigint, e->>2, blobs[(e->>3)::integer], v_position, (e->>4)::uuid, v_command,
                  v_recorded, c->>'actor', coalesce((e->>6)::uuid, (c->>'project')::uuid), (e->>5)::uuid, c->>'request',
                  c->>'correlation', (c->>'causation')::uuid, c->>'traceparent', null, c->>'context')::icecore.events;
        v_row.hash := icecore.event_hash(v_hash, v_row);
        insert into icecore.events values (v_row.*);
        v_hash := v_row.hash; v_at := v_recorded;
        if v_row.originator_id = v_row.warehouse_id then
          v_warehouse := null;
        end if;
      end loop;
      if c ? 'rows' then
        perform icecore.write_rows(c->'rows', blobs, v_generation, coalesce(v_first, v_position + 1) - 1);
      end if;
      if c ? 'old_metadata_files' then
        insert into icecore.old_metadata_files
          select f->>0, (f->>1)::uuid, (f->>2)::uuid, f->>3 from jsonb_array_elements(c->'old_metadata_files') f
          on conflict do nothing;
      end if;
      insert into icecore.commands values (v_command, v_first, v_position, v_recorded);
      if i is not null then
        v_key := ((c->>'project')::uuid, c->>'actor', (i->>'key')::uuid, v_command,
          decode(i->>'hash', 'hex'), i->>'operation', (i->>'status')::smallint, (i->>'object')::uuid, (i->>'version')::bigint,
          v_position, blobs[(i->>'body')::integer], v_recorded, null)::icecore.idempotency;
        v_key.hash := icecore.idempotency_hash(v_hash, v_key);
        insert into icecore.idempotency values (v_key.*);
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
        if sqlstate like '53%' or sqlstate in ('25006', '40P01', '55P03', '58030') then
          -- No space, read-only, a deadlock, the lock of a table or a disk error: the command is not the cause, so the whole batch fails.
          raise;
        end if;
        get stacked diagnostics outcome = returned_sqlstate, detail = message_text;
        detail := outcome || ': ' || detail; outcome := 'error';
        v_position := s_position; v_hash := s_hash; v_at := s_at; position := v_position;
    end;
    return next;
  end loop;
  if v_position > v_started then
    -- One per batch, because Postgres holds a cluster-wide lock from before a notifying commit until after its flush.
    perform pg_notify('events', v_position::text);
  end if;
  if v_depends_on_earlier and current_setting('synchronous_standby_names') <> '' then
    -- The session that wrote the record may have ended before the standbys had it. This message makes the commit wait for them. It stores nothing.
    perform pg_logical_emit_message(true, 'icecore', ''::text);
  end if;
end $$;
