"""Who asks, and what answers a command: the two values every command takes and gives."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The envelope of one request.

    actor -- an opaque id, never a name or an address of a person.
    operation -- the spec's operationId (`createTable`), or the management API's.
    idempotency_key, request_hash -- the key, and sha256 over operation, path and body; the hash matters only with a key.
    """

    request_id: str
    project_id: UUID
    actor: str
    operation: str
    idempotency_key: UUID | None = None
    request_hash: bytes = b""
    correlation_id: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the edge sends: an HTTP status, a JSON body ready to send, the position of the command in the log, an ETag."""

    status: int
    body: bytes | None
    position: int
    etag: str | None = None
