-- name: keep_current_only --
-- A build that keeps only current rows: `append` writes the same rows and deletes those that it ends.
alter function icecore.write_rows(jsonb, bytea[], integer, bigint) rename to write_temporal_rows;

create function icecore.write_rows(rows jsonb, blobs bytea[], p_generation integer, p_before bigint) returns void language plpgsql as $$
declare r jsonb;
begin
  -- The previous row is deleted in the same transaction.
  for r in select * from jsonb_array_elements(rows->'tables') loop
    delete from icecore.tables t
      where t.generation = p_generation and t.table_id = (r->>'table_id')::uuid and t.version < (r->>'version')::bigint;
  end loop;
  for r in select * from jsonb_array_elements(rows->'parts_closed') loop
    delete from icecore.table_parts p
      where p.generation = p_generation and p.table_id = (r->>'table_id')::uuid and p.kind = (r->>'kind')::smallint
        and p.ordinal = any (array(select o::bigint from jsonb_array_elements_text(r->'ordinals') o));
  end loop;
  perform icecore.write_temporal_rows(rows - 'parts_closed', blobs, p_generation, p_before);
end $$;

-- name: position --
select coalesce(max(notification_id), 0) from icecore.events

-- name: wal --
select pg_current_wal_lsn() - '0/0'::pg_lsn
