-- The parameter `batch` of icecore.append is now `commands`: a batch is the part of one stream in them. The name of a parameter cannot be
-- replaced, so the function is made anew, with the grants it had: servers append meanwhile. The functions' files then replace its body.
do $$
declare
  v_grant text; v_grants text[];
begin
  if to_regprocedure('icecore.append(jsonb, bytea[])') is null then
    return;
  end if;
  v_grants := array(
    select format('grant execute on function icecore.append(jsonb, bytea[]) to %s', x.grantee::regrole)
    from pg_proc p, aclexplode(p.proacl) x
    where p.oid = to_regprocedure('icecore.append(jsonb, bytea[])') and x.grantee not in (0, p.proowner));
  drop function icecore.append(jsonb, bytea[]);
  create function icecore.append(commands jsonb, blobs bytea[])
    returns table (command integer, outcome text, "position" bigint, detail text, status smallint, object_id uuid, version bigint,
                   body bytea, waited_microseconds bigint)
    language plpgsql as 'begin end';
  foreach v_grant in array v_grants loop
    execute v_grant;
  end loop;
end $$;
