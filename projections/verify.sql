-- name: begin --
begin isolation level repeatable read read only

-- name: formats --
-- Of definitions and times, because the database or the role may have other settings.
set local quote_all_identifiers = off;
set local search_path = pg_catalog, pg_temp;
set local bytea_output = hex;
-- In a time zone with daylight saving time, two times in a repeated hour would be equal.
set local timezone = 'UTC'

-- name: take_snapshot --
set transaction snapshot %(snapshot)s

-- name: export_snapshot --
select pg_export_snapshot()

-- name: generation --
select generation from icecore.read_models

-- name: head --
select coalesce(max(notification_id), 0) from icecore.events

-- name: chain --
-- Every event in the order of the log, with the columns of domain/recorded.py::RecordedEvent.
select originator_id, originator_version, topic, state, notification_id, event_id, command_id, recorded_at, actor, project_id,
       warehouse_id, request_id, correlation_id, causation_id, traceparent, context, hash
from icecore.events order by notification_id

-- name: commands --
select first_position, command_id, last_position, recorded_at from icecore.commands
where first_position is not null order by first_position

-- name: streams --
-- Every event of the streams of a part, stream by stream.
select originator_id, originator_version, notification_id, event_id, topic, state, project_id, warehouse_id
from icecore.events where originator_id between %(first)s and %(last)s order by originator_id, originator_version

-- name: claims --
select owner, kind, scope, key from icecore.claims where owner between %(first)s and %(last)s order by owner

-- name: location_claims --
select owner, key, kind from icecore.location_claims where owner between %(first)s and %(last)s order by owner

-- name: rows --
select {columns} from {table} where generation = %(generation)s and {owner} between %(first)s and %(last)s order by {key}

-- name: part_tombstones --
select table_id, kind, valid_to, ordinals::text
from icecore.part_tombstones where generation = %(generation)s and table_id between %(first)s and %(last)s order by table_id, kind, valid_to

-- name: preloaded_parts --
-- Tables that are being registered: their parts may exist before their streams.
select table_id from icecore.preloaded_parts where generation = %(generation)s
