-- name: content_kind --
-- What keeps a warehouse from being deleted.
select case
  when exists (select 1 from icecore.names n where n.generation = (select generation from icecore.read_models)
               and n.parent_id = %(warehouse_id)s and n.kind = 'namespace' and n.to_position is null) then 'namespace'
  when exists (select 1 from icecore.claims c where c.kind = 'proposal' and c.scope = %(warehouse_id)s) then 'proposal that waits for approval'
  when exists (select 1 from icecore.tasks t where t.generation = (select generation from icecore.read_models)
               and t.warehouse_id = %(warehouse_id)s and t.queue = 'tabular_purge' and t.status = 'scheduled')
    then 'dropped table whose files are being deleted'
  when exists (select 1 from icecore.old_metadata_files f where f.warehouse_id = %(warehouse_id)s) then 'metadata file that is being deleted'
end
