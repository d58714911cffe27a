-- Whether a warehouse is read-only. Rows from before are of warehouses that are not, so they need no rebuild.

alter table icecore.warehouses add column read_only boolean not null default false;
