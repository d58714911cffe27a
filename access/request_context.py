"""The request context: principal, project, operation, request id and trace of one request."""

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

PROJECT_ID_DEFAULT = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `id` is opaque: never a name or an address of a person."""

    id: str


ANONYMOUS = Principal("anonymous")
"""Whoever asks a server that authenticates nobody."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The proposal whose change is run; `operation` is the change's."""

    proposal_id: UUID
    operation: str


class MakeRoom(Protocol):
    """As RequestContext.make_room."""

    def __call__(self, size: int, shared: Sized | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, whatever it asks for: made once where it comes in, and passed down to the command or query.

    operation -- the spec's operationId (`createTable`), or the management API's.
    idempotency_key, request_hash -- the key, and sha256 over operation, path and body; the hash matters only with a key.
    causation_id -- the event that led to the command, where no client sent it for itself.
    body_bytes -- of the request's body, or of the proposal whose change is run.
    approves -- set where a proposal's change is run by its approval.
    make_room -- takes room for the answer before there is one: a number of bytes, and what stands for them where answers share them.
        Raises TooManyRequests.
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
    approves: Approved | None = None
    make_room: MakeRoom | None = field(default=None, compare=False)
