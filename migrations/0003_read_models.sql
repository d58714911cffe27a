-- The read models: temporal, so that now and then are one query in two forms. Every row belongs to a generation.
-- Rows of one version are never changed; what ends is closed by the position (names) or the stream version (parts) it ends at.

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
-- (commands/settle_parts.py) and removes this row.
create table icecore.part_tombstones (
  generation integer not null,
  table_id uuid not null,
  kind smallint not null,
  valid_to bigint not null,
  ordinals int8multirange not null,
  primary key (generation, table_id, kind, valid_to)
);

-- Tables to come whose parts are written before the append that gives them a head: nobody reads parts without one. The append removes
-- the row; what is left of an append that did not come to effect is given up, and removed with its parts.
create table icecore.staged_parts (
  table_id uuid primary key,
  generation integer not null,
  staged_at timestamptz not null,
  given_up boolean not null default false  -- no append can come to effect on it any more
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

-- Metrics reports as clients sent them: bounded, outside the log, never in the way.
create table icecore.metrics_reports (
  report_id uuid primary key,
  table_id uuid not null,
  received_at timestamptz not null,
  report bytea not null
);
create index metrics_reports_received_at_idx on icecore.metrics_reports (received_at);

-- Writes the rows a command's events fold to (projections/rows.py says their columns). Rows name their event by its number in
-- the command, from 1; p_before is the position before the first; bytes are in blobs, by index from 1.
create function icecore.write_rows(rows jsonb, blobs bytea[], p_generation integer, p_before bigint) returns void language plpgsql as $$
declare closed jsonb; many jsonb;
begin
  -- What one batch both opens and closes is inserted closed (names) or closed after it is inserted (parts).
  if rows ? 'names_closed' then
    update icecore.names n set to_position = p_before + c.number
      from (select (r->>1)::uuid as object_id, min((r->>0)::integer) as number
            from jsonb_array_elements(rows->'names_closed') r group by 1) c
      where n.generation = p_generation and n.object_id = c.object_id and n.to_position is null;
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
    for many in select * from jsonb_array_elements(rows->'part_columns') loop
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
    for closed in select * from jsonb_array_elements(rows->'parts_closed') loop
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
end $$;
