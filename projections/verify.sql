-- name: begin --
-- With the settings by which Postgres prints definitions; the database or the role may have others.
begin isolation level repeatable read read only;
set local quote_all_identifiers = off;
set local search_path = pg_catalog, pg_temp;
set local bytea_output = hex

-- name: generation --
select generation from icecore.read_models

-- name: chain --
-- Every event in the order of the log, as domain/recorded.py::RecordedEvent takes it.
select originator_id, originator_version, topic, state, notification_id, event_id, command_id, recorded_at, actor, project_id,
       warehouse_id, request_id, correlation_id, causation_id, traceparent, context, hash
from icecore.events order by notification_id

-- name: commands --
select first_position, command_id, last_position, recorded_at from icecore.commands
where first_position is not null order by first_position

-- name: streams --
-- Every event, stream by stream.
select originator_id, originator_version, notification_id, event_id, topic, state, project_id, warehouse_id
from icecore.events order by originator_id, originator_version

-- name: claims --
select owner, kind, scope, key from icecore.claims order by owner

-- name: location_claims --
select owner, key from icecore.location_claims order by owner

-- name: names --
select object_id, from_position, to_position, parent_id, kind, name, name_key
from icecore.names where generation = %(generation)s order by object_id, from_position

-- name: warehouses --
select warehouse_id, version, position, event_id, project_id, name, name_key, storage_profile, secret_ref, exact_names
from icecore.warehouses where generation = %(generation)s order by warehouse_id, version

-- name: namespaces --
select namespace_id, version, position, event_id, warehouse_id, parent_id, name, name_key, status, properties
from icecore.namespaces where generation = %(generation)s order by namespace_id, version

-- name: tables --
select table_id, version, position, event_id, warehouse_id, namespace_id, name, name_key, status, metadata_location, locations,
       next_ordinal, head
from icecore.tables where generation = %(generation)s order by table_id, version

-- name: table_parts --
select table_id, kind, ordinal, valid_from, valid_to, snapshot_id, body
from icecore.table_parts where generation = %(generation)s order by table_id, kind, ordinal

-- name: part_tombstones --
select table_id, kind, valid_to, ordinals::text
from icecore.part_tombstones where generation = %(generation)s order by table_id, kind, valid_to

-- name: staged_parts --
-- Tables to come: their parts may be there, their streams may not.
select table_id from icecore.staged_parts where generation = %(generation)s

-- name: proposals --
select proposal_id, version, position, event_id, warehouse_id, status, operation, command_key, hook, reason, expires_at_ms, document
from icecore.proposals where generation = %(generation)s order by proposal_id, version

-- name: views --
select view_id, version, position, event_id, warehouse_id, namespace_id, name, name_key, status, metadata_location, locations, document
from icecore.views where generation = %(generation)s order by view_id, version
