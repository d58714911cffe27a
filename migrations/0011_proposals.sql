-- Proposals: changes that an approval hook held back. One row per version, as the other read models of 0003_read_models.sql.

create table icecore.proposals (
  generation integer not null,
  proposal_id uuid not null,
  version bigint not null,
  position bigint not null,
  event_id uuid not null,
  warehouse_id uuid not null,
  status text not null check (status in ('open', 'approved', 'rejected', 'expired')),
  operation text not null,
  command_key text not null,           -- of the change: one proposal of a key is open at a time
  hook text not null,
  reason text not null,
  expires_at_ms bigint not null,       -- milliseconds since 1970-01-01 UTC
  document bytea not null,             -- the request as it is run again, what it concerns, who decided
  primary key (generation, proposal_id, version)
);
alter table icecore.proposals alter column document set storage external;
create index proposals_opened_idx on icecore.proposals (generation, proposal_id) where version = 1;

-- An open proposal claims the key of its change.
alter table icecore.claims drop constraint claims_kind_check;
alter table icecore.claims add constraint claims_kind_check check (kind in ('warehouse', 'namespace', 'tabular', 'proposal'));

-- The rows of the catalog's own objects are written as before; those of proposals behind them.
alter function icecore.write_rows(jsonb, bytea[], integer, bigint) rename to write_object_rows;
create function icecore.write_rows(rows jsonb, blobs bytea[], p_generation integer, p_before bigint) returns void language plpgsql as $$
begin
  perform icecore.write_object_rows(rows, blobs, p_generation, p_before);
  if rows ? 'proposals' then
    insert into icecore.proposals
      select p_generation, (r->>1)::uuid, (r->>2)::bigint, p_before + (r->>0)::integer, (r->>3)::uuid, (r->>4)::uuid,
             r->>5, r->>6, r->>7, r->>8, r->>9, (r->>10)::bigint, blobs[(r->>11)::integer]
      from jsonb_array_elements(rows->'proposals') r;
  end if;
end $$;
