-- Sinks: how far each has told the log, who leads it, what operators asked of it. None of it is touched by a commit.

create table icecore.sinks (
  name text primary key,
  epoch bigint not null default 0,      -- counts its leaders: what an earlier one writes is refused
  position bigint not null,             -- everything up to it is told, or passed over by a filter or a recorded skip
  mark bigint not null default 0,       -- the broker's own number of the last message it acknowledged; 0: none, or none that counts
  leader text,
  led_since timestamptz,
  last_error text,
  last_error_at timestamptz,
  blocked_position bigint,              -- the event the sink refuses
  lost_position bigint,                 -- up to here the broker acknowledged what it does not hold any more; until a replay brings it back
  updated_at timestamptz not null default now()
);

-- An event a sink may pass over, by an operator's word.
create table icecore.sink_skips (
  sink text not null,
  position bigint not null,
  event_id uuid not null,
  reason text not null check (reason <> ''),
  actor text not null,
  skipped_at timestamptz not null default now(),
  primary key (sink, position)
);
create trigger sink_skips_append_only before update or delete on icecore.sink_skips
  for each row execute function icecore.refuse_change();

create table icecore.sink_replays (
  replay_id uuid primary key,
  sink text not null,
  from_position bigint not null,
  to_position bigint not null,
  filter jsonb not null,
  told_position bigint not null,        -- everything from from_position to it is told again
  told_events bigint not null default 0,
  requested_at timestamptz not null default now(),
  finished_at timestamptz,
  cancelled_at timestamptz,
  check (from_position >= 1 and to_position >= from_position)
);
create index sink_replays_open_idx on icecore.sink_replays (sink, requested_at) where finished_at is null and cancelled_at is null;
