-- Pages of the namespaces that can be undropped cost the same however many tables and views are soft-deleted.
--
-- Also for functions/claims.sql: a command can name how many live objects each of its namespaces contains, whatever is soft-deleted in it.

create index soft_deleted_namespaces_idx on icecore.soft_deleted (generation, warehouse_id, object_id)
  where to_position is null and kind = 'namespace';
