"""A row of the log: the event with its envelope, and the hash that chains it to the row before."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

GENESIS_HASH = bytes(32)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event in the log.

    position -- without gaps, from 1, in commit order;
    version -- without gaps, from 1, in its stream.
    data -- what is in the column `state` of the log, which the eventsourcing library names so.
    causation_id -- the event that caused this one; None if a client did. A drop causes a purge, a proposal causes the events of the
    approved change.
    context -- other context of the command as canonical JSON; None until it is used.
    recorded_at -- the same for all events of a command, and later than that of the previous command.
    """

    stream_id: UUID
    version: int
    topic: str
    data: bytes
    position: int
    event_id: UUID
    command_id: UUID
    recorded_at: datetime
    actor: str
    project_id: UUID
    warehouse_id: UUID
    request_id: str
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    context: str | None
    hash: bytes


def chain_hash(previous: bytes, event: RecordedEvent) -> bytes:
    """sha256 over the previous hash and every column of the row, each preceded by its length (-1 for null), times in µs.

    A context counts only if there is one. `icecore.event_hash` in migrations/functions/hashes.sql computes the same. This form never
    changes.
    """
    columns = (
        event.stream_id.bytes,
        _int8(event.version),
        event.topic.encode(),
        event.data,
        _int8(event.position),
        event.event_id.bytes,
        event.command_id.bytes,
        _int8((event.recorded_at - _EPOCH) // timedelta(microseconds=1)),
        event.actor.encode(),
        event.project_id.bytes,
        event.warehouse_id.bytes,
        event.request_id.encode(),
        None if event.correlation_id is None else event.correlation_id.encode(),
        None if event.causation_id is None else event.causation_id.bytes,
        None if event.traceparent is None else event.traceparent.encode(),
    )
    encoded = b"".join(_int4(-1) if c is None else _int4(len(c)) + c for c in columns)
    if event.context is not None:
        context = event.context.encode()
        encoded += _int4(len(context)) + context
    return sha256(previous + encoded).digest()


def _int4(number: int) -> bytes:
    return struct.pack(">i", number)


def _int8(number: int) -> bytes:
    return struct.pack(">q", number)
