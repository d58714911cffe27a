-- The functions of the append, each whole and in its newest form. What each does stands in its comment in 0001_log.sql and 0011_proposals.sql.

-- No append is under way meanwhile: one holds this lock while it waits for tables, which are locked below.
select pg_advisory_xact_lock(4936203174);

-- A proposal is stale where what it was held for has changed since.
alter table icecore.proposals drop constraint proposals_status_check;
alter table icecore.proposals add constraint proposals_status_check
  check (status in ('open', 'approved', 'rejected', 'expired', 'stale'));

-- How many parts of a table to come are written and durable; null until all are. A crash may lose what was written before that.
alter table icecore.staged_parts add column parts bigint;

-- Metadata files that commits removed from their tables' metadata logs and that are still to be deleted: no table is registered from them.
-- Beside the log: a rebuild leaves it as it is.
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
alter table icecore.staged_parts set (vacuum_truncate = false);
alter table icecore.part_tombstones set (vacuum_truncate = false);
alter table icecore.old_metadata_files set (vacuum_truncate = false);

-- Ties the record of an Idempotency-Key to the log at its position, whose hash is `previous`: verify tells a record that was changed.
create function icecore.idempotency_hash(previous bytea, i icecore.idempotency) returns bytea language sql stable as $$
  select sha256(previous || convert_to(jsonb_build_array(
    i.project_id, i.actor, i.key, i.command_id, encode(i.request_hash, 'hex'), i.operation, i.status, i.object_id, i.version, i.position,
    encode(sha256(i.body), 'hex'), (extract(epoch from i.recorded_at) * 1000000)::bigint)::text, 'UTF8'))
$$;
alter table icecore.idempotency add column hash bytea;
update icecore.idempotency i set hash = icecore.idempotency_hash(
  coalesce((select e.hash from icecore.events e where e.notification_id = i.position), decode(repeat('00', 32), 'hex')), i);
alter table icecore.idempotency alter hash set not null;

-- What else a command was run with (the role it assumed, the engine, which of how many it is): canonical JSON, null until it is used.
alter table icecore.events add column context text;

-- As domain/recorded.py::chain_hash. A context counts only where there is one, so that logs from before it keep their hashes.
create or replace function icecore.event_hash(previous bytea, e icecore.events) returns bytea language sql stable as $$
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
    || icecore.int4_length(convert_to(e.traceparent, 'UTF8'))
    || case when e.context is null then ''::bytea else icecore.int4_length(convert_to(e.context, 'UTF8')) end)))
$$;

create or replace function icecore.settle_claims(c jsonb) returns void language plpgsql as $$
declare r jsonb; v_key text; v_owner uuid;
begin
  -- What the command relies on: parents that live, namespaces that hold nothing.
  for n in 0 .. jsonb_array_length(c->'alive') - 1 loop
    r := c->'alive'->n;
    if not exists (select 1 from icecore.claims where owner = (r#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'parent', detail = r#>>'{}';
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(c->'empty') - 1 loop
    r := c->'empty'->n;
    if exists (select 1 from icecore.claims where scope = (r#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = r#>>'{}';
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(c->'release') - 1 loop
    r := c->'release'->n;
    delete from icecore.claims where kind = r->>0 and scope = (r->>1)::uuid and key = r->>2 and owner = (r->>3)::uuid;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>2;
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(c->'take') - 1 loop
    r := c->'take'->n;
    insert into icecore.claims (kind, scope, key, owner) values (r->>0, (r->>1)::uuid, r->>2, (r->>3)::uuid)
      on conflict do nothing;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>2;
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(c->'release_locations') - 1 loop
    r := c->'release_locations'->n;
    delete from icecore.location_claims where key = r->>0 and owner = (r->>1)::uuid;
  end loop;
  for n in 0 .. jsonb_array_length(c->'take_locations') - 1 loop
    r := c->'take_locations'->n;
    v_key := r->>0; v_owner := (r->>1)::uuid;
    if exists (select 1 from icecore.location_claims l where l.key = any (icecore.location_prefixes(v_key)) and l.owner <> v_owner)
       or exists (select 1 from icecore.location_claims l
                  where l.key >= v_key and l.key < left(v_key, -1) || '0' and l.owner <> v_owner) then  -- '0' follows '/'
      raise exception using errcode = 'IC409', constraint = 'location', detail = v_key;
    end if;
    insert into icecore.location_claims (key, owner) values (v_key, v_owner) on conflict do nothing;
  end loop;
end $$;

create or replace function icecore.append(batch jsonb, blobs bytea[])
returns table (command integer, outcome text, "position" bigint, detail text, status smallint, object_id uuid, version bigint, body bytea,
               locked_microseconds bigint)
language plpgsql volatile security definer
-- With the rights of the owner, so that nobody else needs them; names are looked for in no schema of the caller.
set search_path = pg_catalog, pg_temp
-- Plans made while the tables are small are kept while they grow, so a look-up by a key must be cheaper than one page of a table.
-- Prices, and not enable_seqscan = off: that one prices a scan for which there is no index so high that Postgres 14 to 17 compile it.
set seq_page_cost = 1000
set random_page_cost = 0
as $$
#variable_conflict use_column
declare
  c jsonb; e jsonb; r jsonb; i jsonb;
  v_row icecore.events; v_key icecore.idempotency;
  v_position bigint; v_hash bytea; v_at timestamptz; v_generation integer;
  s_position bigint; s_hash bytea; s_at timestamptz;
  v_started bigint; v_locked timestamptz; v_found record; v_command uuid; v_first bigint; v_recorded timestamptz;
  v_rests_on_earlier boolean := false;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    -- What the holder of the lock writes would not be seen below.
    raise exception using errcode = '55000', message = 'icecore.append runs in transactions that are read committed';
  end if;
  perform pg_advisory_xact_lock(4936203174);
  v_locked := clock_timestamp();
  select x.notification_id, x.hash, x.recorded_at into v_position, v_hash, v_at
    from icecore.events x order by x.notification_id desc limit 1;
  v_position := coalesce(v_position, 0);
  v_hash := coalesce(v_hash, decode(repeat('00', 32), 'hex'));
  select m.generation into v_generation from icecore.read_models m where m.one;
  v_started := v_position;
  for n in 0 .. jsonb_array_length(batch) - 1 loop
    c := batch->n; command := n + 1;
    locked_microseconds := 0; outcome := 'appended'; detail := null; status := null; object_id := null; version := null; body := null;
    v_command := (c->>'id')::uuid; i := c->'idempotency';
    -- plpgsql variables survive a subtransaction's rollback.
    s_position := v_position; s_hash := v_hash; s_at := v_at;
    begin
      select x.last_position, case when x.first_position is null then 'recorded' else 'appended' end into position, outcome
        from icecore.commands x where x.command_id = v_command;
      if found then
        v_rests_on_earlier := true;
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
          v_rests_on_earlier := true;
          return next; continue;
        end if;
      end if;
      if c ? 'generation' and (c->>'generation')::integer <> v_generation then
        raise exception using errcode = 'IC409', constraint = 'generation', detail = v_generation::text;
      end if;
      if c ? 'staged' then
        -- Parts that were written beforehand, as (table, number): unless they were given up meanwhile, they are the table's from here on.
        -- The number is recorded when all of them are durable. Without it (a server from before this migration) none are taken over.
        for k in 0 .. jsonb_array_length(c->'staged') - 1 loop
          r := c->'staged'->k;
          delete from icecore.staged_parts x where x.table_id = (r->>0)::uuid and x.generation = v_generation and not x.given_up
            and x.parts = (r->>1)::bigint;
          if not found then
            raise exception using errcode = 'IC409', constraint = 'staged', detail = coalesce(r->>0, r#>>'{}');
          end if;
        end loop;
      end if;
      if c ? 'read_from' then
        -- A file was read, as (position, its place), which lay in nobody's place then: a purge that ended since may have deleted it.
        r := c->'read_from';
        if exists (select 1 from icecore.events x
                   join icecore.tables t
                     on t.generation = v_generation and t.table_id = x.originator_id and t.version = x.originator_version
                   where x.notification_id > (r->>0)::bigint and x.topic = 'table.purged.v1'
                     and t.locations && icecore.location_prefixes(r->>1)) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>1;
        end if;
        -- Nor may it be about to be deleted, because a commit removed it from its table's metadata log.
        if exists (select 1 from icecore.old_metadata_files x where x.key = r->>1) then
          raise exception using errcode = 'IC409', constraint = 'claim', detail = r->>1;
        end if;
      end if;
      for k in 0 .. jsonb_array_length(c->'heads') - 1 loop
        r := c->'heads'->k;
        if (select x.event_id from icecore.events x where x.originator_id = (r->>0)::uuid
            order by x.originator_version desc limit 1) is distinct from (r->>1)::uuid then
          raise exception using errcode = 'IC409', constraint = 'head', detail = r->>0;
        end if;
      end loop;
      if c ? 'claims' then
        perform icecore.settle_claims(c->'claims');
      elsif c ? 'take' then
        -- From a server that was running when this migration came: it names them beside all else.
        perform icecore.settle_claims(c);
      end if;
      v_first := null;
      -- Later than all before, under the lock: a time up to the last event's is answered for good.
      v_recorded := greatest(clock_timestamp(), v_at + interval '1 microsecond');
      for k in 0 .. jsonb_array_length(c->'events') - 1 loop
        e := c->'events'->k;
        v_position := v_position + 1;
        v_first := coalesce(v_first, v_position);
        v_row := ((e->>0)::uuid, (e->>1)::bigint, e->>2, blobs[(e->>3)::integer], v_position, (e->>4)::uuid, v_command,
                  v_recorded, c->>'actor', (c->>'project')::uuid, (e->>5)::uuid, c->>'request',
                  c->>'correlation', (c->>'causation')::uuid, c->>'traceparent', null, c->>'context')::icecore.events;
        v_row.hash := icecore.event_hash(v_hash, v_row);
        insert into icecore.events values (v_row.*);
        v_hash := v_row.hash; v_at := v_recorded;
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
        if sqlstate like '53%' or sqlstate in ('25006', '58030') then
          -- No room, no writes here, a failing disk: that is not about the command. The batch is given up.
          raise;
        end if;
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
  if v_rests_on_earlier and current_setting('synchronous_standby_names') <> '' then
    -- The session that wrote it may have ended before the standbys had it. With this the commit waits for them; it leaves nothing behind.
    perform pg_logical_emit_message(true, 'icecore', ''::text);
  end if;
end $$;

create or replace function icecore.write_rows(rows jsonb, blobs bytea[], p_generation integer, p_before bigint) returns void
language plpgsql as $$
declare closed jsonb; many jsonb;
begin
  -- What one batch both opens and closes is inserted closed (names) or closed after it is inserted (parts).
  if rows ? 'names_closed' then
    -- One by one and by the key: joined to the JSON, it would be planned for as many rows as the JSON might have. In the order of events, so
    -- that an object's first closes the name it had.
    for k in 0 .. jsonb_array_length(rows->'names_closed') - 1 loop
      closed := rows->'names_closed'->k;
      update icecore.names n set to_position = p_before + (closed->>0)::integer
        where n.generation = p_generation and n.object_id = (closed->>1)::uuid and n.to_position is null;
    end loop;
  end if;
  if rows ? 'names' then
    insert into icecore.names
      select p_generation, (r->>1)::uuid, p_before + (r->>0)::integer,
             (select p_before + min((c->>0)::integer) from jsonb_array_elements(rows->'names_closed') c
              where c->>1 = r->>1 and (c->>0)::integer > (r->>0)::integer),
             (r->>2)::uuid, r->>3, r->>4, r->>5
      from jsonb_array_elements(rows->'names') r;
  end if;
  if rows ? 'tables' then
    insert into icecore.tables
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid, (r->>5)::uuid,
             r->>6, r->>7, r->>8, r->>9, array(select jsonb_array_elements_text(r->10)), (r->>11)::bigint, blobs[(r->>12)::integer]
      from jsonb_array_elements(rows->'tables') r;
  end if;
  if rows ? 'parts' then
    insert into icecore.table_parts
      select p_generation, (r->>0)::uuid, (r->>1)::smallint, (r->>2)::bigint, (r->>3)::bigint, null, (r->>4)::bigint,
             blobs[(r->>5)::integer]
      from jsonb_array_elements(rows->'parts') r;
  end if;
  if rows ? 'part_columns' then
    for k in 0 .. jsonb_array_length(rows->'part_columns') - 1 loop
      many := rows->'part_columns'->k;
      insert into icecore.table_parts
        select p_generation, (many->>0)::uuid, (many->>1)::smallint, p.ordinal, (many->>2)::bigint, null, p.snapshot_id,
               blobs[(many->>5)::integer + p.number - 1]
        from unnest(array(select o::bigint from jsonb_array_elements_text(many->3) o),
                    array(select s::bigint from jsonb_array_elements_text(many->4) s)) with ordinality p(ordinal, snapshot_id, number);
    end loop;
  end if;
  if rows ? 'part_tombstones' then
    insert into icecore.part_tombstones
      select p_generation, (r->>0)::uuid, (r->>1)::smallint, (r->>2)::bigint, (r->>3)::int8multirange
      from jsonb_array_elements(rows->'part_tombstones') r;
  end if;
  if rows ? 'parts_closed' then
    -- One statement per table and kind, by the key: joined to the JSON, it would be planned for as many rows as the JSON might have.
    for k in 0 .. jsonb_array_length(rows->'parts_closed') - 1 loop
      closed := rows->'parts_closed'->k;
      update icecore.table_parts p set valid_to = (closed->>2)::bigint
        where p.generation = p_generation and p.table_id = (closed->>0)::uuid and p.kind = (closed->>1)::smallint
          and p.ordinal = any (array(select o::bigint from jsonb_array_elements_text(closed->3) o));
    end loop;
  end if;
  if rows ? 'views' then
    insert into icecore.views
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid, (r->>5)::uuid,
             r->>6, r->>7, r->>8, r->>9, array(select jsonb_array_elements_text(r->10)), blobs[(r->>11)::integer]
      from jsonb_array_elements(rows->'views') r;
  end if;
  if rows ? 'namespaces' then
    insert into icecore.namespaces
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid, (r->>5)::uuid,
             r->>6, r->>7, r->>8, blobs[(r->>9)::integer]
      from jsonb_array_elements(rows->'namespaces') r;
  end if;
  if rows ? 'warehouses' then
    insert into icecore.warehouses
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid,
             r->>5, r->>6, blobs[(r->>7)::integer], (r->>8)::uuid, (r->>9)::boolean
      from jsonb_array_elements(rows->'warehouses') r;
  end if;
  if rows ? 'proposals' then
    insert into icecore.proposals
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid,
             r->>5, r->>6, r->>7, r->>8, r->>9, (r->>10)::bigint, blobs[(r->>11)::integer]
      from jsonb_array_elements(rows->'proposals') r;
  end if;
end $$;

-- Tables and views hold the places that their path properties name. Those from before get what is free, the older ones first; what another
-- holds stays shared. By events, since claims are folded from the log: a commit that changes nothing else.
do $$
declare
  found record; o record; identity text; property text; path text[]; segments text[]; place text; key text; event_id uuid; outcome text;
begin
  for found in
    select n.kind, n.object_id, e.project_id
    from icecore.read_models m
    join icecore.names n on n.generation = m.generation and n.to_position is null and n.kind in ('table', 'view')
    join icecore.events e on e.originator_id = n.object_id and e.originator_version = 1
    order by e.notification_id
  loop
    if found.kind = 'table' then
      select x.*, x.head as document into o from icecore.tables x
        where x.generation = (select m.generation from icecore.read_models m) and x.table_id = found.object_id order by x.version desc limit 1;
    else
      select x.*, null::bigint as next_ordinal into o from icecore.views x
        where x.generation = (select m.generation from icecore.read_models m) and x.view_id = found.object_id order by x.version desc limit 1;
    end if;
    identity := split_part(o.locations[1], '|', 1);
    foreach property in array array['write.data.path', 'write.metadata.path', 'write.object-storage.path', 'write.folder-storage.path'] loop
      continue when position(convert_to('"' || property || '"', 'UTF8') in o.document) = 0;
      begin
        place := convert_from(o.document, 'UTF8')::json->'properties'->>property;
      exception when untranslatable_character then
        -- A text with U+0000: Postgres cannot read such a document.
        exit;
      end;
      -- The place as storage/locations.py has its key, where it has one: scheme, authority, segments.
      path := regexp_match(place, '^(file|s3|s3a|s3n|gs|abfs|abfss|wasbs):(?://([^/]*))?(/.*)?$');
      segments := string_to_array(regexp_replace(path[3], '^/|/$', '', 'g'), '/');
      continue when path is null or segments && array['', '.', '..'];
      key := identity || '|' || case when path[1] like 's3%' then 's3' when path[1] in ('abfss', 'wasbs') then 'abfs' else path[1] end || '://'
        || regexp_replace(coalesce(path[2], ''), '\.blob\.', '.dfs.') || '/' || coalesce(array_to_string(segments || ''::text, '/'), '');
      -- As PLACES_MAX in domain/claims.py.
      continue when cardinality(o.locations) >= 100 or exists (select from unnest(o.locations) l where starts_with(key, l));
      event_id := gen_random_uuid();
      select a.outcome into outcome from icecore.append(
        jsonb_build_array(jsonb_build_object(
          'id', gen_random_uuid(), 'actor', 'icecore-migrate', 'project', found.project_id, 'request', 'migration 0013',
          'heads', jsonb_build_array(jsonb_build_array(found.object_id, o.event_id)),
          'events', jsonb_build_array(jsonb_build_array(
            found.object_id, o.version + 1, found.kind || '.committed.v1', 1, event_id, o.warehouse_id)),
          'rows', jsonb_build_object(found.kind || 's', jsonb_build_array(
            jsonb_build_array(1, found.object_id, o.version + 1, event_id, o.warehouse_id, o.namespace_id, o.name, o.name_key, o.status,
                              o.metadata_location, o.locations || key)
            || case when found.kind = 'table' then jsonb_build_array(o.next_ordinal) else '[]' end || '2')),
          'claims', jsonb_build_object('take_locations', jsonb_build_array(jsonb_build_array(key, found.object_id)),
            'alive', '[]'::jsonb, 'empty', '[]'::jsonb, 'release', '[]'::jsonb, 'take', '[]'::jsonb, 'release_locations', '[]'::jsonb))),
        array[convert_to(jsonb_build_object(
          'metadata-location', o.metadata_location, 'location-key', null, 'actions', '[]'::jsonb, 'path-keys', array[key],
          'delta', jsonb_build_object('head', '{"set": {}, "removed": []}'::jsonb, 'properties', '{"set": {}, "removed": []}'::jsonb,
                                      'parts', '{}'::jsonb))::text, 'UTF8'), o.document]) a;
      if outcome = 'appended' then
        o.version := o.version + 1; o.event_id := event_id; o.locations := o.locations || key;
      elsif outcome <> 'location' then
        raise exception 'the log did not take the claim of %: %', key, outcome;
      end if;
    end loop;
  end loop;
end $$;

-- Whoever serves is granted `append` alone (migrations/serving_role.sql).
revoke execute on all functions in schema icecore from public;
