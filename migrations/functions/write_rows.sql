-- Writes the rows of a command's events (domain/read_models/rows.py): JSON objects with the tables' columns as keys; a missing key is null.
-- Positions in them are relative to p_before. Bytes are in blobs, by index from 1.
create or replace function icecore.write_rows(rows jsonb, blobs bytea[], p_generation integer, p_before bigint) returns void
language plpgsql as $$
declare
  r jsonb;
  v_name icecore.names; v_warehouse icecore.warehouses; v_namespace icecore.namespaces; v_table icecore.tables; v_view icecore.views;
  v_proposal icecore.proposals; v_project icecore.projects; v_soft_deleted icecore.soft_deleted;
  v_task icecore.tasks; v_task_version icecore.task_versions;
begin
  -- Names are closed before others are opened, in the order of events. One statement per row, by key: a join with the JSON would be planned
  -- for as many rows as the JSON might have.
  for k in 0 .. coalesce(jsonb_array_length(rows->'names_closed'), 0) - 1 loop
    r := rows->'names_closed'->k;
    update icecore.names n set to_position = p_before + (r->>'position')::bigint
      where n.generation = p_generation and n.object_id = (r->>'object_id')::uuid and n.to_position is null;
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'names'), 0) - 1 loop
    v_name := jsonb_populate_record(null::icecore.names, rows->'names'->k);
    v_name.generation := p_generation;
    v_name.from_position := p_before + v_name.from_position; v_name.to_position := p_before + v_name.to_position;
    insert into icecore.names values (v_name.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'soft_deleted_closed'), 0) - 1 loop
    r := rows->'soft_deleted_closed'->k;
    update icecore.soft_deleted s set to_position = p_before + (r->>'position')::bigint
      where s.generation = p_generation and s.object_id = (r->>'object_id')::uuid and s.to_position is null;
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'soft_deleted'), 0) - 1 loop
    v_soft_deleted := jsonb_populate_record(null::icecore.soft_deleted, rows->'soft_deleted'->k);
    v_soft_deleted.generation := p_generation;
    v_soft_deleted.from_position := p_before + v_soft_deleted.from_position; v_soft_deleted.to_position := p_before + v_soft_deleted.to_position;
    insert into icecore.soft_deleted values (v_soft_deleted.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'tasks_ended'), 0) - 1 loop
    r := rows->'tasks_ended'->k;
    update icecore.tasks t set to_position = p_before + (r->>'position')::bigint, status = r->>'status'
      where t.generation = p_generation and t.object_id = (r->>'object_id')::uuid and t.to_position is null;
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'tasks'), 0) - 1 loop
    v_task := jsonb_populate_record(null::icecore.tasks, rows->'tasks'->k);
    v_task.generation := p_generation;
    v_task.from_position := p_before + v_task.from_position; v_task.to_position := p_before + v_task.to_position;
    insert into icecore.tasks values (v_task.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'task_versions'), 0) - 1 loop
    v_task_version := jsonb_populate_record(null::icecore.task_versions, rows->'task_versions'->k);
    v_task_version.generation := p_generation; v_task_version.position := p_before + v_task_version.position;
    insert into icecore.task_versions values (v_task_version.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'tables'), 0) - 1 loop
    r := rows->'tables'->k;
    v_table := jsonb_populate_record(null::icecore.tables, r);
    v_table.generation := p_generation; v_table.position := p_before + v_table.position; v_table.head := blobs[(r->>'head')::integer];
    -- A server from before migration 0006 does not send it, here and below: it stays as in the version before.
    v_table.protected := coalesce(v_table.protected, (
      select x.protected from icecore.tables x
      where x.generation = p_generation and x.table_id = v_table.table_id and x.version = v_table.version - 1), false);
    insert into icecore.tables values (v_table.*);
  end loop;
  if rows ? 'table_parts' then
    insert into icecore.table_parts (generation, table_id, kind, ordinal, valid_from, snapshot_id, body)
      select p_generation, p.table_id, p.kind, p.ordinal, p.valid_from, p.snapshot_id, blobs[p.body]
      from jsonb_to_recordset(rows->'table_parts')
        p(table_id uuid, kind smallint, ordinal bigint, valid_from bigint, snapshot_id bigint, body integer);
  end if;
  for k in 0 .. coalesce(jsonb_array_length(rows->'part_columns'), 0) - 1 loop
    r := rows->'part_columns'->k;
    insert into icecore.table_parts (generation, table_id, kind, ordinal, valid_from, snapshot_id, body)
      select p_generation, (r->>'table_id')::uuid, (r->>'kind')::smallint, p.ordinal, (r->>'valid_from')::bigint, p.snapshot_id,
             blobs[(r->>'body')::integer + p.number - 1]
      from unnest(array(select o::bigint from jsonb_array_elements_text(r->'ordinals') o),
                  array(select s::bigint from jsonb_array_elements_text(r->'snapshot_ids') s))
        with ordinality p(ordinal, snapshot_id, number);
  end loop;
  if rows ? 'part_tombstones' then
    insert into icecore.part_tombstones (generation, table_id, kind, valid_to, ordinals)
      select p_generation, p.table_id, p.kind, p.valid_to, p.ordinals
      from jsonb_to_recordset(rows->'part_tombstones') p(table_id uuid, kind smallint, valid_to bigint, ordinals int8multirange);
  end if;
  -- Parts are closed after others are opened. One statement per table and kind, by key, for the same reason.
  for k in 0 .. coalesce(jsonb_array_length(rows->'parts_closed'), 0) - 1 loop
    r := rows->'parts_closed'->k;
    update icecore.table_parts p set valid_to = (r->>'valid_to')::bigint
      where p.generation = p_generation and p.table_id = (r->>'table_id')::uuid and p.kind = (r->>'kind')::smallint
        and p.ordinal = any (array(select o::bigint from jsonb_array_elements_text(r->'ordinals') o));
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'views'), 0) - 1 loop
    r := rows->'views'->k;
    v_view := jsonb_populate_record(null::icecore.views, r);
    v_view.generation := p_generation; v_view.position := p_before + v_view.position; v_view.document := blobs[(r->>'document')::integer];
    v_view.protected := coalesce(v_view.protected, (
      select x.protected from icecore.views x
      where x.generation = p_generation and x.view_id = v_view.view_id and x.version = v_view.version - 1), false);
    insert into icecore.views values (v_view.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'namespaces'), 0) - 1 loop
    r := rows->'namespaces'->k;
    v_namespace := jsonb_populate_record(null::icecore.namespaces, r);
    v_namespace.generation := p_generation; v_namespace.position := p_before + v_namespace.position;
    v_namespace.properties := blobs[(r->>'properties')::integer];
    v_namespace.protected := coalesce(v_namespace.protected, (
      select x.protected from icecore.namespaces x
      where x.generation = p_generation and x.namespace_id = v_namespace.namespace_id and x.version = v_namespace.version - 1), false);
    insert into icecore.namespaces values (v_namespace.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'warehouses'), 0) - 1 loop
    r := rows->'warehouses'->k;
    v_warehouse := jsonb_populate_record(null::icecore.warehouses, r);
    v_warehouse.generation := p_generation; v_warehouse.position := p_before + v_warehouse.position;
    v_warehouse.storage_profile := blobs[(r->>'storage_profile')::integer]; v_warehouse.config := blobs[(r->>'config')::integer];
    v_warehouse.format_versions := blobs[(r->>'format_versions')::integer];
    -- A server from before migration 0004 does not send these.
    v_warehouse.status := coalesce(v_warehouse.status, 'active'); v_warehouse.protected := coalesce(v_warehouse.protected, false);
    -- Nor these from before migrations 0008 and 0010, which stay as they were.
    if not (r ? 'read_only' and r ? 'purge_default' and r ? 'expiration_seconds') then
      select x.read_only, x.purge_default, x.expiration_seconds
        into v_warehouse.read_only, v_warehouse.purge_default, v_warehouse.expiration_seconds
        from icecore.warehouses x
        where x.generation = p_generation and x.warehouse_id = v_warehouse.warehouse_id and x.version = v_warehouse.version - 1;
    end if;
    -- Nor this from before migration 0013.
    if not r ? 'purge_heartbeat_seconds_max' then
      v_warehouse.purge_heartbeat_seconds_max := (
        select x.purge_heartbeat_seconds_max from icecore.warehouses x
        where x.generation = p_generation and x.warehouse_id = v_warehouse.warehouse_id and x.version = v_warehouse.version - 1);
    end if;
    v_warehouse.read_only := coalesce(v_warehouse.read_only, false);
    v_warehouse.purge_default := coalesce(v_warehouse.purge_default, false);
    insert into icecore.warehouses values (v_warehouse.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'proposals'), 0) - 1 loop
    r := rows->'proposals'->k;
    v_proposal := jsonb_populate_record(null::icecore.proposals, r);
    v_proposal.generation := p_generation; v_proposal.position := p_before + v_proposal.position;
    v_proposal.document := blobs[(r->>'document')::integer];
    insert into icecore.proposals values (v_proposal.*);
  end loop;
  for k in 0 .. coalesce(jsonb_array_length(rows->'projects'), 0) - 1 loop
    v_project := jsonb_populate_record(null::icecore.projects, rows->'projects'->k);
    v_project.generation := p_generation; v_project.position := p_before + v_project.position;
    insert into icecore.projects values (v_project.*);
  end loop;
end $$;
