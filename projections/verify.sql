-- name: begin --
begin isolation level repeatable read read only

-- name: generation --
select generation from icecore.read_models

-- name: chain --
-- Every event in the order of the log, as domain/recorded.py::RecordedEvent takes it.
select originator_id, originator_version, topic, state, notification_id, event_id, command_id, recorded_at, actor, project_id,
       warehouse_id, request_id, correlation_id, causation_id, traceparent, hash
from icecore.events order by notification_id

-- name: commands --
select first_position, command_id, last_position, recorded_at from icecore.commands
where first_position is not null order by first_position

-- name: refusals --
-- Commands without events that cannot have been recorded where they say.
select c.command_id, c.last_position, c.recorded_at, e.recorded_at, n.recorded_at
from icecore.commands c
left join icecore.events e on e.notification_id = c.last_position
left join icecore.events n on n.notification_id = c.last_position + 1
where c.first_position is null
  and (c.last_position < 0 or (c.last_position > 0 and e.notification_id is null)
       or c.recorded_at < e.recorded_at or c.recorded_at > n.recorded_at)
order by c.command_id

-- name: idempotency --
-- Keys that disagree with the command they were written with, or name a version that is not in the log by then.
select i.project_id, i.actor, i.key, i.command_id, i.position, i.recorded_at, i.object_id, i.version, i.status,
       c.last_position, c.recorded_at, e.actor, e.project_id, o.originator_version, c.first_position is not null, i.keys
from (select *, count(*) over (partition by command_id) as keys from icecore.idempotency) i
left join icecore.commands c on c.command_id = i.command_id
left join icecore.events e on e.notification_id = c.first_position
left join icecore.events o on o.originator_id = i.object_id and o.originator_version = i.version
  and o.notification_id <= i.position
where c.command_id is null or c.last_position <> i.position or c.recorded_at <> i.recorded_at
   or e.actor <> i.actor or e.project_id <> i.project_id
   or (i.object_id is null) <> (i.version is null) or (i.object_id is not null and o.originator_id is null)
   or i.status not between 200 and 499 or (i.status >= 400 and c.first_position is not null) or i.keys > 1
order by i.project_id, i.actor, i.key

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
