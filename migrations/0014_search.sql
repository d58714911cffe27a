-- Search by name: an asynchronous read model (projections/asynchronous/search.py).

create table icecore.search_names (
  object_id uuid primary key,
  warehouse_id uuid not null,
  kind text not null check (kind in ('namespace', 'table', 'view')),
  name text not null,                   -- its own, without its namespace's
  terms bigint[] not null               -- hashes of the name's trigrams and of the whole name, with the warehouse's id
);
-- Without a list of pending entries, which every search would read.
create index search_names_terms_idx on icecore.search_names using gin (terms) with (fastupdate = off);

create table icecore.search_terms (
  term bigint primary key,
  objects bigint not null               -- number of names with the term: a search begins with its rarest terms
);

create table icecore.search_tracking (
  application_name text primary key,
  notification_id bigint not null
);
insert into icecore.search_tracking values ('Icecore', 0);
