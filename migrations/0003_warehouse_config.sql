-- The defaults and overrides of /v1/config that the operator sets for a warehouse. Rows from before have none, so they need no rebuild.

alter table icecore.warehouses add column config bytea;  -- JSON; null: neither
