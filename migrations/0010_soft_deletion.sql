-- Soft deletion: the delete profile and the purge default of a warehouse, and tables and views that can be undropped until they expire. Rows
-- from before are of warehouses with hard deletion, so they need no rebuild.

alter table icecore.warehouses
  add column expiration_seconds bigint,  -- null: a drop is final at once
  add column purge_default boolean not null default false;

alter table icecore.tables
  add column expires_at_ms bigint,       -- of a soft-deleted table, milliseconds since 1970-01-01 UTC; else null
  add column purges boolean,             -- of a soft-deleted table: its files are deleted when it has expired; else null
  drop constraint tables_status_check,
  add constraint tables_status_check check (status in ('live', 'soft-deleted', 'dropped', 'purging', 'purged'));

alter table icecore.views
  add column expires_at_ms bigint,
  drop constraint views_status_check,
  add constraint views_status_check check (status in ('live', 'soft-deleted', 'dropped'));

-- Soft-deleted tables and views, each from the position of its drop to that of its undrop or expiry. The indexes contain only what is
-- soft-deleted now, so that the past costs nothing.
create table icecore.soft_deleted (
  generation integer not null,
  object_id uuid not null,
  from_position bigint not null,
  to_position bigint,                  -- null: it is soft-deleted
  warehouse_id uuid not null,
  namespace_id uuid not null,
  kind text not null check (kind in ('table', 'view')),
  name text not null,
  expires_at_ms bigint not null,
  primary key (generation, object_id, from_position)
);
create index soft_deleted_warehouse_idx on icecore.soft_deleted (generation, warehouse_id, object_id) where to_position is null;
create index soft_deleted_namespace_idx on icecore.soft_deleted (generation, namespace_id, object_id) where to_position is null;
create index soft_deleted_expiry_idx on icecore.soft_deleted (generation, expires_at_ms, object_id) where to_position is null;

-- A soft-deleted table or view claims its id in its namespace, which therefore cannot be dropped.
alter table icecore.claims
  drop constraint claims_kind_check,
  add constraint claims_kind_check check (kind in ('project', 'warehouse', 'namespace', 'tabular', 'soft-deleted', 'proposal'));
