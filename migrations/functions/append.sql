-- Appends the commands of one call under the append lock, each in its own subtransaction, and returns one row per command. `outcome` is:
--   appended   position = that of its last event; also if an earlier copy of the command was appended
--   recorded   a command without events was recorded; no earlier copy of it can be appended any more
--   replayed   the Idempotency-Key was already used by the same request; the row contains the record, `detail` the operation
--   key_reused the Idempotency-Key was already used by a different request
--   warehouse_changed  the warehouse has changed since the command was decided; decide again
--   version_conflict | parent | not_empty | claim | generation | preloaded   the conflict; decide again
--   location   another object claims the location in `detail`; the command is refused
--   error      any other error of Postgres, with its code
-- waited_microseconds: how long the call waited for the lock; the same in every row.
-- command: its number in the call, from 1.
-- commands: a JSON array (commands/execution/append_request.py writes its elements); blobs: the bytes they refer to by index, from 1.
-- icecore.events has the eventsourcing library's names: originator_id is the stream, originator_version its version, notification_id the
-- position, state the encoded event.
-- Runs in its own transaction in read committed and takes the lock first, so that it sees all that the previous holder committed.
create or replace function icecore.append(commands jsonb, blobs bytea[])
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
  v_command jsonb; v_event jsonb; v_item jsonb; v_record jsonb;
  v_event_row icecore.events; v_record_row icecore.idempotency;
  v_position bigint; v_hash bytea; v_last_recorded_at timestamptz; v_generation integer;
  v_position_before bigint; v_hash_before bytea; v_last_recorded_at_before timestamptz;
  v_called_at timestamptz := clock_timestamp(); v_start_position bigint; v_earlier record;
  v_command_id uuid; v_first_position bigint; v_recorded_at timestamptz;
  v_wait_for_standbys boolean := false;
  v_warehouse_id uuid; v_warehouse_event_id uuid;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    -- The statements below would not see what the previous holder of the lock wrote.
    raise exception using errcode = '55000', message = 'icecore.append runs in transactions that are read committed';
  end if;
  perform pg_advisory_xact_lock(4936203174);  -- AdvisoryLock.APPEND in database/advisory_locks.py
  waited_microseconds := extract(epoch from clock_timestamp() - v_called_at) * 1000000;
  select x.notification_id, x.hash, x.recorded_at into v_position, v_hash, v_last_recorded_at
    from icecore.events x order by x.notification_id desc limit 1;
  v_position := coalesce(v_position, 0);
  v_hash := coalesce(v_hash, decode(repeat('00', 32), 'hex'));
  select m.generation into v_generation from icecore.read_models m where m.one;
  v_start_position := v_position;
  for n in 0 .. jsonb_array_length(commands) - 1 loop
    v_command := commands->n; command := n + 1;
    outcome := 'appended'; detail := null; status := null; object_id := null; version := null; body := null;
    v_command_id := (v_command->>'id')::uuid; v_record := v_command->'idempotency';
    -- plpgsql variables survive a subtransaction's rollback.
    v_position_before := v_position; v_hash_before := v_hash; v_last_recorded_at_before := v_last_recorded_at;
    begin
      select x.last_position, case when x.first_position is null then 'recorded' else 'appended' end into position, outcome
        from icecore.commands x where x.command_id = v_command_id;
      if found then
        v_wait_for_standbys := true;
        return next; continue;
      end if;
      outcome := 'appended';
      if v_record is not null then
        select x.* into v_earlier from icecore.idempotency x
          where x.project_id = (v_command->>'project')::uuid and x.actor = v_command->>'actor' and x.key = (v_record->>'key')::uuid;
        if found then
          position := v_earlier.position; detail := v_earlier.operation; status := v_earlier.status;
          object_id := v_earlier.object_id; version := v_earlier.version; body := v_earlier.body;
          outcome := case when v_earlier.request_hash = decode(v_record->>'hash', 'hex') then 'replayed' else 'key_reused' end;
          v_wait_for_standbys := true;
          return next; continue;
        end if;
      end if;
      if v_command ? 'warehouse_head' then
        -- Looked up once for several commands, because most commands of a call are on one warehouse.
        if v_warehouse_id is distinct from (v_command->'warehouse_head'->>0)::uuid then
          v_warehouse_id := (v_command->'warehouse_head'->>0)::uuid;
          v_warehouse_event_id := (select x.event_id from icecore.events x where x.originator_id = v_warehouse_id
                                order by x.originator_version desc limit 1);
        end if;
        if v_warehouse_event_id is distinct from (v_command->'warehouse_head'->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'warehouse_changed', detail = v_warehouse_id::text;
        end if;
      end if;
      if v_command ? 'no_warehouse_events_since' then
        -- (warehouse, position, pattern of topics)
        v_item := v_command->'no_warehouse_events_since';
        if exists (select 1 from icecore.events x
                   where x.notification_id > (v_item->>1)::bigint and x.warehouse_id = (v_item->>0)::uuid
                     and x.topic like coalesce(v_item->>2, '%')) then
          raise exception using errcode = 'IC409', constraint = 'warehouse_changed', detail = v_item->>0;
        end if;
      end if;
      if v_command ? 'generation' and (v_command->>'generation')::integer <> v_generation then
        raise exception using errcode = 'IC409', constraint = 'generation', detail = v_generation::text;
      end if;
      if v_command ? 'preloaded' then
        -- Parts that were written before the append, as (table, number): the table owns them from here on, unless they were abandoned.
        -- The number is recorded when all of them are durable.
        for k in 0 .. jsonb_array_length(v_command->'preloaded') - 1 loop
          v_item := v_command->'preloaded'->k;
          delete from icecore.preloaded_parts x where x.table_id = (v_item->>0)::uuid and x.generation = v_generation and not x.abandoned
            and x.parts = (v_item->>1)::bigint;
          if not found then
            raise exception using errcode = 'IC409', constraint = 'preloaded', detail = v_item->>0;
          end if;
        end loop;
      end if;
      if v_command ? 'file_read' then
        -- A file was read, as (position, location). No table claimed its location then, but a purge that ended since may have deleted it.
        v_item := v_command->'file_read';
        -- Materialized, because a join may be planned as a scan of all events in the order of their streams.
        if exists (with purged as materialized (
                     select x.originator_id, x.originator_version from icecore.events x
                     where x.notification_id > (v_item->>0)::bigint and x.topic = 'table.purged.v1')
                   select 1 from purged p
                   join icecore.tables t
                     on t.generation = v_generation and t.table_id = p.originator_id and t.version = p.originator_version
                   where t.locations && icecore.location_prefixes(v_item->>1)) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = v_item->>1;
        end if;
        -- The file must also not be waiting for its deletion because a commit removed it from its table's metadata log.
        if exists (select 1 from icecore.old_metadata_files x where x.key = v_item->>1) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = v_item->>1;
        end if;
      end if;
      for k in 0 .. jsonb_array_length(v_command->'expected_heads') - 1 loop
        -- (stream, its last event or null)
        v_item := v_command->'expected_heads'->k;
        if (select x.event_id from icecore.events x where x.originator_id = (v_item->>0)::uuid
            order by x.originator_version desc limit 1) is distinct from (v_item->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'version_conflict', detail = v_item->>0;
        end if;
      end loop;
      if v_command ? 'claims' then
        perform icecore.write_claims(v_command->'claims');
      end if;
      v_first_position := null;
      -- Strictly increasing, so that the state as of a past time never changes.
      v_recorded_at := greatest(clock_timestamp(), v_last_recorded_at + interval '1 microsecond');
      for k in 0 .. jsonb_array_length(v_command->'events') - 1 loop
        -- (stream, version, topic, blob of the data, event id, warehouse, project if it is not that of the request)
        v_event := v_command->'events'->k;
        v_position := v_position + 1;
        v_first_position := coalesce(v_first_position, v_position);
        v_event_row := (
          (v_event->>0)::uuid, (v_event->>1)::bigint, v_event->>2, blobs[(v_event->>3)::integer], v_position, (v_event->>4)::uuid,
          v_command_id, v_recorded_at, v_command->>'actor', coalesce((v_event->>6)::uuid, (v_command->>'project')::uuid),
          (v_event->>5)::uuid, v_command->>'request', v_command->>'correlation', (v_command->>'causation')::uuid,
          v_command->>'traceparent', null, v_command->>'context')::icecore.events;
        v_event_row.hash := icecore.event_hash(v_hash, v_event_row);
        insert into icecore.events values (v_event_row.*);
        v_hash := v_event_row.hash; v_last_recorded_at := v_recorded_at;
        if v_event_row.originator_id = v_event_row.warehouse_id then
          v_warehouse_id := null;
        end if;
      end loop;
      if v_command ? 'rows' then
        perform icecore.write_rows(v_command->'rows', blobs, v_generation, coalesce(v_first_position, v_position + 1) - 1);
      end if;
      if v_command ? 'old_metadata_files' then
        insert into icecore.old_metadata_files
          select f->>0, (f->>1)::uuid, (f->>2)::uuid, f->>3 from jsonb_array_elements(v_command->'old_metadata_files') f
          on conflict do nothing;
      end if;
      insert into icecore.commands values (v_command_id, v_first_position, v_position, v_recorded_at);
      if v_record is not null then
        v_record_row := ((v_command->>'project')::uuid, v_command->>'actor', (v_record->>'key')::uuid, v_command_id,
          decode(v_record->>'hash', 'hex'), v_record->>'operation', (v_record->>'status')::smallint, (v_record->>'object')::uuid,
          (v_record->>'version')::bigint, v_position, blobs[(v_record->>'body')::integer], v_recorded_at, null)::icecore.idempotency;
        v_record_row.hash := icecore.idempotency_hash(v_hash, v_record_row);
        insert into icecore.idempotency values (v_record_row.*);
      end if;
      position := v_position;
      if v_first_position is null then
        outcome := 'recorded';
      end if;
    exception
      when sqlstate 'IC409' then
        get stacked diagnostics outcome = constraint_name, detail = pg_exception_detail;
        v_position := v_position_before; v_hash := v_hash_before; v_last_recorded_at := v_last_recorded_at_before; position := v_position;
      when others then
        if sqlstate like '53%' or sqlstate in ('25006', '40P01', '55P03', '58030') then
          -- No space, read-only, a deadlock, the lock of a table or a disk error: the command is not the cause, so the whole call fails.
          raise;
        end if;
        get stacked diagnostics outcome = returned_sqlstate, detail = message_text;
        detail := outcome || ': ' || detail; outcome := 'error';
        v_position := v_position_before; v_hash := v_hash_before; v_last_recorded_at := v_last_recorded_at_before; position := v_position;
    end;
    return next;
  end loop;
  if v_position > v_start_position then
    -- One per call, because Postgres holds a cluster-wide lock from before a notifying commit until after its flush.
    perform pg_notify('events', v_position::text);
  end if;
  if v_wait_for_standbys and current_setting('synchronous_standby_names') <> '' then
    -- The session that wrote the record may have ended before the standbys had it. This message makes the commit wait for them.
    -- It stores nothing.
    perform pg_logical_emit_message(true, 'icecore', ''::text);
  end if;
end $$;
