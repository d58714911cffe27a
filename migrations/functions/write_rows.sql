-- Writes the rows a command's events fold to (domain/read_models/rows.py says their columns). Rows name their event by its number in
-- the command, from 1; p_before is the position before the first; bytes are in blobs, by index from 1.
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
