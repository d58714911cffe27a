-- Namespaces that can be undropped with all that was dropped with them. A command can name how much each of its namespaces contains, and
-- only what is live can be a parent (functions/claims.sql). Rows from before are of final drops, so they need no rebuild.

alter table icecore.namespaces
  add column expires_at_ms bigint,  -- of a soft-deleted namespace, milliseconds since 1970-01-01 UTC; else null
  add column root_id uuid,          -- of a soft-deleted namespace: the one whose recursive drop dropped it, or itself; else null
  drop constraint namespaces_status_check,
  add constraint namespaces_status_check check (status in ('live', 'soft-deleted', 'dropped'));

alter table icecore.soft_deleted
  drop constraint soft_deleted_kind_check,
  add constraint soft_deleted_kind_check check (kind in ('table', 'view', 'namespace'));
