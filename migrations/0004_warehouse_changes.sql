-- The status and the policies of a warehouse. Rows from before are of active warehouses without policies, so they need no rebuild.

alter table icecore.warehouses
  add column status text not null default 'active' check (status in ('active', 'inactive', 'deleted')),
  add column protected boolean not null default false,
  add column format_versions bytea;      -- JSON; null: all format versions are allowed

-- Readers of events cache the names of warehouses. Here they find those that were renamed.
create index events_renamed_idx on icecore.events (notification_id) where topic = 'warehouse.renamed.v1';
