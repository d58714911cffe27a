-- A value with its length before it; for null, the length -1.
create or replace function icecore.int4_length(value bytea) returns bytea language sql immutable as $$
  select coalesce(int4send(length(value)) || value, int4send(-1)) $$;

-- The same as domain/recorded.py::chain_hash; this form never changes. A null context is left out.
create or replace function icecore.event_hash(previous bytea, e icecore.events) returns bytea language sql stable as $$
  -- With these parentheses a large state is copied once or twice instead of once for every column after it.
  select sha256((previous
    || icecore.int4_length(uuid_send(e.originator_id))
    || icecore.int4_length(int8send(e.originator_version))
    || icecore.int4_length(convert_to(e.topic, 'UTF8')))
    || (icecore.int4_length(e.state)
    || (icecore.int4_length(int8send(e.notification_id))
    || icecore.int4_length(uuid_send(e.event_id))
    || icecore.int4_length(uuid_send(e.command_id))
    || icecore.int4_length(int8send((extract(epoch from e.recorded_at) * 1000000)::bigint))
    || icecore.int4_length(convert_to(e.actor, 'UTF8'))
    || icecore.int4_length(uuid_send(e.project_id))
    || icecore.int4_length(uuid_send(e.warehouse_id))
    || icecore.int4_length(convert_to(e.request_id, 'UTF8'))
    || icecore.int4_length(convert_to(e.correlation_id, 'UTF8'))
    || icecore.int4_length(uuid_send(e.causation_id))
    || icecore.int4_length(convert_to(e.traceparent, 'UTF8'))
    || case when e.context is null then ''::bytea else icecore.int4_length(convert_to(e.context, 'UTF8')) end)))
$$;

-- Binds the record of an Idempotency-Key to the log at its position, whose hash is `previous`, so that verify detects a changed record.
create or replace function icecore.idempotency_hash(previous bytea, i icecore.idempotency) returns bytea language sql stable as $$
  select sha256(previous || convert_to(jsonb_build_array(
    i.project_id, i.actor, i.key, i.command_id, encode(i.request_hash, 'hex'), i.operation, i.status, i.object_id, i.version, i.position,
    encode(sha256(i.body), 'hex'), (extract(epoch from i.recorded_at) * 1000000)::bigint)::text, 'UTF8'))
$$;
