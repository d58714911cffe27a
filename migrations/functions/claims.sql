-- The location and all its parents as claim keys: 's3://b/a/t/' -> {'s3://b/', 's3://b/a/', 's3://b/a/t/', ...}
create or replace function icecore.location_prefixes(key text) returns text[] language sql immutable as $$
  select array_agg(left(key, i)) from generate_series(1, length(key)) i where substr(key, i, 1) = '/' $$;

-- Writes and releases a command's claims. Raises IC409 with the conflicting claim.
create or replace function icecore.write_claims(c jsonb) returns void language plpgsql as $$
declare r jsonb; v_key text; v_owner uuid; v_kind text;
begin
  -- Conditions of the command: parents that exist, objects that contain nothing, and objects that contain a known number of others.
  for n in 0 .. jsonb_array_length(c->'parents') - 1 loop
    r := c->'parents'->n;
    -- A soft-deleted one holds its place in its own parent, and nothing can be put into it.
    if not exists (select 1 from icecore.claims where owner = (r#>>'{}')::uuid and kind <> 'soft-deleted') then
      raise exception using errcode = 'IC409', constraint = 'parent', detail = r#>>'{}';
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(c->'empty') - 1 loop
    r := c->'empty'->n;
    if exists (select 1 from icecore.claims where scope = (r#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = r#>>'{}';
    end if;
  end loop;
  -- What the command releases is still counted, so a number states that nothing else was added or removed.
  for n in 0 .. coalesce(jsonb_array_length(c->'contents'), 0) - 1 loop
    r := c->'contents'->n;
    if (select count(*) from icecore.claims where scope = (r->>0)::uuid) <> (r->>1)::bigint then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = r->>0;
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
    v_key := r->>0; v_owner := (r->>1)::uuid; v_kind := r->>2;
    -- A table or view may lie inside a namespace's location, so only those of its kind conflict from above.
    if exists (select 1 from icecore.location_claims l
               where l.key = any (icecore.location_prefixes(v_key)) and l.owner <> v_owner and (l.kind = 'tabular' or v_kind = 'namespace'))
       or exists (select 1 from icecore.location_claims l
                  where l.key >= v_key and l.key < left(v_key, -1) || '0' and l.owner <> v_owner) then  -- '0' follows '/'
      raise exception using errcode = 'IC409', constraint = 'location', detail = v_key;
    end if;
    insert into icecore.location_claims (key, owner, kind) values (v_key, v_owner, v_kind) on conflict do nothing;
  end loop;
end $$;
