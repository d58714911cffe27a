-- The prefixes of a location's claim key that end in '/', shortest first. Among them are the keys of all locations that contain it, and its
-- own: '…|s3://b/a/' -> {'…|s3:/', '…|s3://', '…|s3://b/', '…|s3://b/a/'}
create or replace function icecore.location_prefixes(key text) returns text[] language sql immutable as $$
  select array_agg(left(key, i)) from generate_series(1, length(key)) i where substr(key, i, 1) = '/' $$;

-- Takes and releases the claims of a command (domain/claims.py), after checking which objects must exist, be empty or contain so many
-- others. `claims` is an object of arrays:
--   parents            ids of objects that must exist and not be soft-deleted
--   empty              ids of objects that must contain no others
--   contents           (id, number): objects that must contain so many others, before the command
--   live_contents      (id, number): namespaces that must contain so many live objects, before the command
--   release, take      (kind, scope, key, owner): names; scope is the object that contains the owner
--   release_locations  (key, owner)
--   take_locations     (key, owner, kind of the owner: tabular or namespace)
-- Raises IC409 for the first that does not hold. The constraint is parent, not_empty, claim or location, which append returns as the
-- outcome; the detail is the id of the object, or the key of the claim.
-- Dropped first, because its parameter had another name in earlier versions.
drop function if exists icecore.write_claims(jsonb);
create or replace function icecore.write_claims(claims jsonb) returns void language plpgsql as $$
declare v_item jsonb; v_key text; v_owner uuid; v_kind text;
begin
  for n in 0 .. jsonb_array_length(claims->'parents') - 1 loop
    v_item := claims->'parents'->n;
    -- A soft-deleted namespace has a claim too, so that its parent is not empty, but nothing can be put into it.
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
  -- Counted before the command's own claims are released and taken, so the number holds only if no other command added or removed any.
  for n in 0 .. coalesce(jsonb_array_length(claims->'contents'), 0) - 1 loop
    v_item := claims->'contents'->n;
    if (select count(*) from icecore.claims where scope = (v_item->>0)::uuid) <> (v_item->>1)::bigint then
      raise exception using errcode = 'IC409', constraint = 'not_empty', detail = v_item->>0;
    end if;
  end loop;
  -- As contents, but only what is live: any number of soft-deleted objects costs nothing here.
  for n in 0 .. coalesce(jsonb_array_length(claims->'live_contents'), 0) - 1 loop
    v_item := claims->'live_contents'->n;
    if (select count(*) from icecore.claims where kind in ('namespace', 'tabular') and scope = (v_item->>0)::uuid) <> (v_item->>1)::bigint then
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
    -- A table or view may lie inside a namespace's location. A namespace may not lie inside that of a table, view or other namespace.
    if exists (select 1 from icecore.location_claims l
               where l.key = any (icecore.location_prefixes(v_key)) and l.owner <> v_owner and (l.kind = 'tabular' or v_kind = 'namespace'))
       or exists (select 1 from icecore.location_claims l
                  where l.key >= v_key and l.key < left(v_key, -1) || '0' and l.owner <> v_owner) then  -- '0' follows '/'
      raise exception using errcode = 'IC409', constraint = 'location', detail = v_key;
    end if;
    insert into icecore.location_claims (key, owner, kind) values (v_key, v_owner, v_kind) on conflict do nothing;
  end loop;
end $$;
