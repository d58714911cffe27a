"""The request context: principal, project, operation, request id and trace of one request."""

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Principal:
    """The client that sent a request. `id` is opaque: it is not the name or address of a person."""

    id: str


ANONYMOUS = Principal("anonymous")
"""The principal of all requests to a server without authentication."""


@dataclass(frozen=True, slots=True)
class ApprovedProposal:
    """The proposal whose change is executed. `operation` is that of the change."""

    proposal_id: UUID
    operation: str


class ReserveMemory(Protocol):
    """The type of RequestContext.reserve_memory."""

    def __call__(self, size: int, shared: Sized | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The context of one request. It is created at the edge and passed down to the command or query.

    project_id -- of what is read or changed. project_resolved -- False: the request names no project, and project_id is the default one
        until the project of its warehouse is known.
    operation -- the spec's operationId (`createTable`), or the management API's.
    idempotency_key, request_hash -- the key, and sha256 over operation, warehouse, names in the path, options that change the effect, and
        body; the hash matters only with a key.
    causation_id -- the event that caused the command; None for a command sent by a client.
    body_bytes -- size of the request's body, or of the proposal whose change is executed.
    approves -- set if the command is the approved change of a proposal.
    log_confirmed -- the process's caches are as new as the log was when the request arrived, or newer.
    reserve_memory -- reserves memory for the response before it is made: a number of bytes, and the object that several responses share, if
        any. Raises TooManyRequests.
    """

    request_id: str
    project_id: UUID
    principal: Principal
    operation: str
    idempotency_key: UUID | None = None
    request_hash: bytes = b""
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None
    body_bytes: int = 0
    approves: ApprovedProposal | None = None
    log_confirmed: bool = field(default=False, compare=False)
    project_resolved: bool = field(default=True, compare=False)
    reserve_memory: ReserveMemory | None = field(default=None, compare=False)
