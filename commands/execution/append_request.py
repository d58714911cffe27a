"""What a command appends: its events, the last events of streams that they expect, their claims, and the rows they fold to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.claims import Claim, LocationClaim, NameClaim, check_location_count
from ...domain.document_sizes import check_table_size, check_whole_document_size
from ...domain.documents import Json
from ...domain.errors import InternalError, ServiceUnavailable, TooManyRequests
from ...domain.events import Event
from ...domain.namespace import NamespaceState
from ...domain.read_models.rows import Rows
from ...domain.read_models.stream_fold import StreamFold
from ...domain.streams import State, StreamChange, claims_of
from ...domain.table import TableState
from ...domain.view import ViewState
from ...storage.large_documents import BYTES_CONCURRENT_MAX
from ..tables.old_metadata_files import OldMetadataFile

AppendOutcome = Literal[
    "appended",
    "recorded",
    "replayed",
    "key_reused",
    "warehouse_changed",
    "version_conflict",
    "parent",
    "not_empty",
    "claim",
    "location",
    "generation",
    "preloaded",
    "error",
]
"""Defined at the top of migrations/functions/append.sql. After `claim` the command is decided again, after `location` it is refused."""

NOT_APPENDED_ERRORS = (InternalError, ServiceUnavailable, TooManyRequests)
"""Raised by the committer if nothing of an append request is in the log or can still arrive there."""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """What is stored for an Idempotency-Key: the row from which the response is built, or a small body."""

    status: int
    object_id: UUID | None = None
    version: int | None = None
    body: bytes | None = None


APPEND_ERROR_MESSAGE = (
    "Postgres rejected the request, and nothing was changed. Retrying is unlikely to help: an operator finds the reason in the server's "
    "log records"
)
"""The message for a client whose command fails in Postgres by a fault of ours, or of the database."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The result of appending one command.

    outcome -- what became of the command; not an HTTP status.
    position -- of its last event; without events, of the last event of the log; of a replayed command, that of the first request. Of no
        meaning otherwise.
    detail -- of a conflict: the object, claim or generation; of an error: the code and message of Postgres.
    idempotency_record, operation -- if the key was used before: what was stored for the first request with it, and its operation.
    """

    outcome: AppendOutcome
    position: int
    detail: str | None = None
    idempotency_record: IdempotencyRecord | None = None
    operation: str | None = None


@dataclass(slots=True)
class AppendRequest:
    """One command for `icecore.append`. It has its own id, so that a command that is sent twice is appended once.

    file_read -- for a command that read a file: the position at which no other object claimed the file's location, and the key of
        that location. Append refuses the command (`claim`: it is decided again) if a purge of the location ended since, or if the file
        is about to be deleted.
    changes -- the changes by stream, for approval hooks.
    old_metadata_files -- a job deletes them after the append (commands/tables/old_metadata_files.py).
    table_bytes_max -- limit on the document of one table, as JSON.
    decided_on_warehouse -- append refuses the command (`warehouse_changed`) if the warehouse has a newer event, unless the command is a
        change of the warehouse itself.
    no_warehouse_events_since -- a warehouse, a position, and a topic with `%` as a wildcard: append refuses the command
        (`warehouse_changed`) if such an event in the warehouse came after the position.
    must_exist, must_be_empty -- objects that must exist, and objects that must contain no others.
    expected_child_counts -- objects that must contain as many others as given, before the command: those that it depends on or
        changes.
    expected_live_child_counts -- as expected_child_counts, without what is soft-deleted.
    """

    context: RequestContext
    command_id: UUID = field(default_factory=uuid7)
    generation: int | None = None
    idempotency_record: IdempotencyRecord | None = None
    must_exist: list[UUID] = field(default_factory=list)
    must_be_empty: list[UUID] = field(default_factory=list)
    expected_child_counts: list[tuple[UUID, int]] = field(default_factory=list)
    expected_live_child_counts: list[tuple[UUID, int]] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    preloaded: list[tuple[UUID, int]] = field(default_factory=list)
    changes: list[StreamChange] = field(default_factory=list)
    file_read: tuple[int, str] | None = None
    old_metadata_files: list[OldMetadataFile] = field(default_factory=list)
    table_bytes_max: int = BYTES_CONCURRENT_MAX
    decided_on_warehouse: Warehouse | None = None
    no_warehouse_events_since: tuple[UUID, int, str] | None = None
    _expected_heads: list[tuple[UUID, UUID | None]] = field(default_factory=list)
    _events: list[tuple[UUID, int, str, bytes, UUID, UUID, UUID]] = field(default_factory=list)
    _taken: list[Claim] = field(default_factory=list)
    _released: list[Claim] = field(default_factory=list)

    def add(
        self,
        stream_id: UUID,
        warehouse_id: UUID,
        before: State | None,
        events: Sequence[Event],
        generation: int | None = None,
        project_id: UUID | None = None,
        *,
        shown_to_hooks: bool = True,
    ) -> State:
        """Adds events to a stream in the state `before` (None: a new stream), and returns the state after them.

        project_id -- of the events; None: that of the context. shown_to_hooks -- whether approval hooks see the change.
        Raises BadRequest if the object would claim too many locations or its document would be too large.
        """
        assert events, "at least one event"
        if generation is not None:
            assert self.generation in (None, generation)
            self.generation = generation
        self._expected_heads.append((stream_id, before.event_id if before is not None else None))
        project_id = self.context.project_id if project_id is None else project_id
        fold = StreamFold(stream_id, project_id, warehouse_id, before)
        version = before.version if before is not None else 0
        state: State | None = before
        for event in events:
            version += 1
            event_id, data = uuid7(), event.encode()
            self._events.append((stream_id, version, event.TOPIC, data, event_id, warehouse_id, project_id))
            state = fold.apply(self.rows, len(self._events), version, event_id, event.TOPIC, data)
        assert state is not None
        self._check_size(before, state)
        claims_before, claims_after = claims_of(before), claims_of(state)
        if any(isinstance(claim, LocationClaim) for claim in claims_after - claims_before):
            check_location_count(sum(isinstance(claim, LocationClaim) for claim in claims_after))
        self._released += claims_before - claims_after
        self._taken += claims_after - claims_before
        if shown_to_hooks:
            self.changes.append(StreamChange(before, events, state))
        return state

    def _check_size(self, before: State | None, after: State) -> None:
        match after:
            case TableState():
                document = before.document if isinstance(before, TableState) else None
                check_table_size(document, after.document, self.table_bytes_max)
            case ViewState():
                metadata = before.metadata if isinstance(before, ViewState) else None
                check_whole_document_size("A view's metadata", metadata, self.rows.views[-1].document)
            case NamespaceState():
                properties = before.properties if isinstance(before, NamespaceState) else None
                check_whole_document_size("A namespace's properties", properties, self.rows.namespaces[-1].properties)

    def depend_on(self, state: State) -> None:
        """Makes the append fail if the stream has changed, although the command does not write to it."""
        self.depend_on_event(state.id, state.event_id)

    def depend_on_event(self, stream_id: UUID, event_id: UUID | None) -> None:
        """As `depend_on`, given the stream's newest event; None if it has none."""
        self._expected_heads.append((stream_id, event_id))

    def take_preloaded(self, table_id: UUID, generation: int, parts: int) -> None:
        """Makes the append adopt the table's parts, which were written before it, in this generation of the read models.

        parts -- their number. Append refuses the command (`preloaded`) unless this number is recorded as durable.
        """
        assert self.generation in (None, generation)
        self.generation = generation
        self.preloaded.append((table_id, parts))
        self.rows.table_parts = []

    def _writes(self, stream_id: UUID) -> bool:
        """Whether it has events of the stream."""
        return any(event[0] == stream_id for event in self._events)

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    @property
    def stream_count(self) -> int:
        """Number of streams that it writes or depends on."""
        return len(self._expected_heads)

    @property
    def must_be_appended(self) -> bool:
        """Whether there is anything to append: events, a response for an Idempotency-Key, or an approval without changes."""
        return self.has_events or self.context.idempotency_key is not None or self.context.approves is not None

    def to_json(self, blobs: list[bytes]) -> Json:
        """The command as JSON for migrations/functions/append.sql. Bytes are appended to `blobs`; the JSON has their index, from 1."""
        context = self.context
        command: Json = {
            "id": self.command_id,
            "actor": context.principal.id,
            "project": context.project_id,
            "request": context.request_id,
            "correlation": context.correlation_id,
            "causation": context.causation_id,
            "traceparent": context.traceparent,
            "expected_heads": self._expected_heads,
            "events": [
                (stream_id, version, topic, _blob(blobs, data), event_id, warehouse_id)
                if project_id == context.project_id
                else (stream_id, version, topic, _blob(blobs, data), event_id, warehouse_id, project_id)
                for stream_id, version, topic, data, event_id, warehouse_id, project_id in self._events
            ],
            "rows": self.rows.to_json(blobs),
        }
        warehouse = self.decided_on_warehouse
        if warehouse is not None and warehouse.event_id is not None and not self._writes(warehouse.id):
            command["warehouse_head"] = (warehouse.id, warehouse.event_id)
        if self.no_warehouse_events_since is not None:
            command["no_warehouse_events_since"] = self.no_warehouse_events_since
        counts = self.expected_child_counts or self.expected_live_child_counts
        if self.must_exist or self.must_be_empty or counts or self._released or self._taken:
            command["claims"] = self._claims()
        if self.generation is not None:
            command["generation"] = self.generation
        if self.file_read is not None:
            command["file_read"] = self.file_read
        if self.old_metadata_files:
            command["old_metadata_files"] = [tuple(file) for file in self.old_metadata_files]
        if self.preloaded:
            command["preloaded"] = self.preloaded
        if context.idempotency_key is not None and self.idempotency_record is not None:
            command["idempotency"] = {
                "key": context.idempotency_key,
                "hash": context.request_hash.hex(),
                "operation": context.operation,
                "status": self.idempotency_record.status,
                "object": self.idempotency_record.object_id,
                "version": self.idempotency_record.version,
                "body": None if self.idempotency_record.body is None else _blob(blobs, self.idempotency_record.body),
            }
        return command

    def _claims(self) -> Json:
        """The claims that the command takes, releases and depends on. The keys are fixed: servers of other versions send them too."""
        contents = {"contents": self.expected_child_counts} if self.expected_child_counts else {}
        live = {"live_contents": self.expected_live_child_counts} if self.expected_live_child_counts else {}
        return {
            "parents": self.must_exist,
            "empty": self.must_be_empty,
            **contents,
            **live,
            "release": [tuple(claim) for claim in self._released if isinstance(claim, NameClaim)],
            "take": [tuple(claim) for claim in self._taken if isinstance(claim, NameClaim)],
            "release_locations": [tuple(claim) for claim in self._released if not isinstance(claim, NameClaim)],
            "take_locations": [tuple(claim) for claim in self._taken if not isinstance(claim, NameClaim)],
        }


def _blob(blobs: list[bytes], data: bytes) -> int:
    blobs.append(data)
    return len(blobs)
