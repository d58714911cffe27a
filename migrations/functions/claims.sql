-- The location and all its parents as claim keys: 's3://b/a/t/' -> {'s3://b/', 's3://b/a/', 's3://b/a/t/', ...}
create or replace function icecore.location_prefixes(key text) returns text[] language sql immutable as $$
  select array_agg(left(key, i)) from generate_series(1, length(key)) i where substr(key, i, 1) = '/' $$;

-- Writes and releases a command's claims. Raises IC409 with the conflicting claim.
-- Its parameter had another name before.
drop function if exists icecore.write_claims(jsonb);
create or replace function icecore.write_claims(claims jsonb) returns void language plpgsql as $$
declare v_item jsonb; v_key text; v_owner uuid; v_kind text;
begin
  -- Conditions of the command: parents that exist, objects that contain nothing, and objects that contain a known number of others.
  for n in 0 .. jsonb_array_length(claims->'parents') - 1 loop
    v_item := claims->'parents'->n;
    -- A soft-deleted one holds its place in its own parent, and nothing can be put into it.
    if not exists (select 1 from icecore.claims where owner = (v_item#>>'{}')::uuid and kind <> 'soft-deleted') then
      raise exception using errcode = 'IC409', constraint = 'parent', detail = v_item#>>'{}';
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(claims->'empty') - 1 loop
    v_item := claims->'empty'->n;
    if exists (select 1 from icecore.claims where scope = (v_item#>>'{}')::uuid) then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = v_item#>>'{}';
    end if;
  end loop;
  -- What the command releases is still counted, so a number states that nothing else was added or removed.
  for n in 0 .. coalesce(jsonb_array_length(claims->'contents'), 0) - 1 loop
    v_item := claims->'contents'->n;
    if (select count(*) from icecore.claims where scope = (v_item->>0)::uuid) <> (v_item->>1)::bigint then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = v_item->>0;
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(claims->'release') - 1 loop
    v_item := claims->'release'->n;
    delete from icecore.claims where kind = v_item->>0 and scope = (v_item->>1)::uuid and key = v_item->>2 and owner = (v_item->>3)::uuid;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = v_item->>2;
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(claims->'take') - 1 loop
    v_item := claims->'take'->n;
    insert into icecore.claims (kind, scope, key, owner) values (v_item->>0, (v_item->>1)::uuid, v_item->>2, (v_item->>3)::uuid)
      on conflict do nothing;
    if not found then
      raise exception using errcode = 'IC409', constraint = 'claim', detail = v_item->>2;
    end if;
  end loop;
  for n in 0 .. jsonb_array_length(claims->'release_locations') - 1 loop
    v_item := claims->'release_locations'->n;
    delete from icecore.location_claims where key = v_item->>0 and owner = (v_item->>1)::uuid;
  end loop;
  for n in 0 .. jsonb_array_length(claims->'take_locations') - 1 loop
    v_item := claims->'take_locations'->n;
    v_key := v_item->>0; v_owner := (v_item->>1)::uuid; v_kind := v_item->>2;
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
