-- Whether an object is protected from being dropped. Rows from before are of objects without protection, so they need no rebuild.

alter table icecore.namespaces add column protected boolean not null default false;
alter table icecore.tables add column protected boolean not null default false;
alter table icecore.views add column protected boolean not null default false;
