-- Projects, and the server's own id. The default project has no row until its first event, so a log from before needs no rebuild.

create table icecore.projects (
  generation integer not null,
  project_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  name text not null,
  name_key text not null,
  status text not null check (status in ('active', 'deleted')),
  primary key (generation, project_id, version)
);

-- Names of projects are claimed too.
alter table icecore.claims drop constraint claims_kind_check;
alter table icecore.claims add constraint claims_kind_check
  check (kind in ('project', 'warehouse', 'namespace', 'tabular', 'proposal'));

-- Not derived from the log.
create table icecore.server (
  one boolean primary key default true check (one),
  server_id uuid not null default gen_random_uuid()
);
insert into icecore.server default values;
