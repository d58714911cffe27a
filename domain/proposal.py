"""Proposal: a change a hook held back, kept as it was asked for until it is approved, rejected, out of time or out of date."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from domain.claims import Claim, NameClaim
from domain.documents import Json
from domain.errors import ProposalClosed
from domain.events import Event, ProposalApproved, ProposalExpired, ProposalOpened, ProposalRejected, ProposalStale

ProposalStatus = Literal["open", "approved", "rejected", "expired", "stale"]
PROPOSAL_STATUSES: tuple[ProposalStatus, ...] = ("open", "approved", "rejected", "expired", "stale")


@dataclass(frozen=True, slots=True)
class ProposalState:
    """A proposal at one version of its stream.

    command_key -- what two requests for the same change share: only one proposal of a key is open at a time.
    request -- the request as it is run again: `segments` (of the path, encoded), `query`, `body`.
    objects -- what it concerns: `kind`, `id`, `name` (levels, outermost first), `event-id` and `parent-id` (domain/events.py).
    actor -- who asked for the change; decided_by, decision_reason -- who approved or rejected it, and why.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    status: ProposalStatus
    operation: str
    command_key: str
    request: Json
    actor: str
    hook: str
    reason: str
    opened_at_ms: int
    expires_at_ms: int
    objects: list[Json]
    decided_by: str | None = None
    decision_reason: str | None = None

    def lapsed(self, now_ms: int) -> bool:
        """Its time is up, though nobody may have said so in the log yet."""
        return now_ms >= self.expires_at_ms

    def check_open(self, now_ms: int) -> None:
        """ProposalClosed where nothing can be decided any more."""
        if self.status != "open":
            raise ProposalClosed(f"Proposal {self.id} is {self.status}")
        if self.lapsed(now_ms):
            raise ProposalClosed(f"Proposal {self.id} expired at {time_text(self.expires_at_ms)}")

    def is_held_for(self, objects: Sequence[Json]) -> bool:
        """Whether a change of these objects is the one that was held: the same things, each with no event since, in the same places."""
        return all("event-id" in each for each in self.objects) and [*map(_held_for, self.objects)] == [*map(_held_for, objects)]


def _held_for(each: Json) -> tuple[Json, ...]:
    # What is to be created gets another id each time it is decided.
    return each["kind"], each["event-id"] and each["id"], each["event-id"], each["parent-id"]


def time_text(milliseconds: int) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def evolve(state: ProposalState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> ProposalState:
    if isinstance(event, ProposalOpened):
        return ProposalState(
            stream_id,
            version,
            event_id,
            warehouse_id,
            "open",
            event.operation,
            event.command_key,
            event.request,
            event.actor,
            event.hook,
            event.reason,
            event.opened_at_ms,
            event.expires_at_ms,
            event.objects,
        )
    assert state is not None
    state = replace(state, version=version, event_id=event_id)
    match event:
        case ProposalApproved():
            return replace(state, status="approved", decided_by=event.by)
        case ProposalRejected():
            return replace(state, status="rejected", decided_by=event.by, decision_reason=event.reason)
        case ProposalExpired():
            return replace(state, status="expired")
        case ProposalStale():
            return replace(state, status="stale")
    raise AssertionError(f"{type(event).__name__} is no event of a proposal")


def claims(state: ProposalState) -> frozenset[Claim]:
    """While it is open, no second one is opened for the same change."""
    if state.status != "open":
        return frozenset()
    return frozenset({NameClaim("proposal", state.warehouse_id, state.command_key, state.id)})
