"""Proposal: a change that a hook held. Its decisions (approved, rejected, expired, stale), and the fold of its events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from uuid import UUID

from .claims import Claim, NameClaim
from .documents import Json
from .errors import ProposalClosed
from .events import Event, ProposalApproved, ProposalExpired, ProposalOpened, ProposalRejected, ProposalStale

ProposalStatus = Literal["open", "approved", "rejected", "expired", "stale"]
PROPOSAL_STATUSES: tuple[ProposalStatus, ...] = ("open", "approved", "rejected", "expired", "stale")


@dataclass(frozen=True, slots=True)
class ProposalState:
    """A proposal at one version of its stream.

    command_key -- what two requests for the same change share: only one proposal of a key is open at a time.
    operation, command -- what is asked for, as domain/stored_commands.py writes and reads it.
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
    command: Json
    actor: str
    hook: str
    reason: str
    opened_at_ms: int
    expires_at_ms: int
    objects: list[Json]
    decided_by: str | None = None
    decision_reason: str | None = None


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A change that a hook holds, and for how long; the members that ProposalState has too mean the same."""

    operation: str
    command_key: str
    command: Json
    actor: str
    hook: str
    reason: str
    expires_in_seconds: float
    objects: list[Json]


class OpenDecision(NamedTuple):
    """What a held change leads to.

    closes -- how the proposal that was open for the same change ends; None where none was, or where it stays.
    opens -- the new proposal; None where the one that was open stands for this change too.
    """

    closes: ProposalExpired | ProposalStale | None
    opens: ProposalOpened | None


def decide_open(open_one: ProposalState | None, held: HeldChange, now_ms: int) -> OpenDecision:
    """`open_one` is the proposal that is open for the same change; only one is at a time."""
    closes: ProposalExpired | ProposalStale | None = None
    if open_one is not None:
        if _lapsed(open_one, now_ms):
            closes = ProposalExpired()
        elif _is_held_for(open_one, held.objects):
            return OpenDecision(None, None)
        else:
            closes = ProposalStale()
    expires_at_ms = now_ms + int(held.expires_in_seconds * 1000)
    opens = ProposalOpened(
        held.operation, held.command_key, held.command, held.actor, held.hook, held.reason, now_ms, expires_at_ms, held.objects
    )
    return OpenDecision(closes, opens)


def decide_approve(state: ProposalState, objects: Sequence[Json], by: str, now_ms: int) -> ProposalApproved:
    """`objects` are what the change would be of now, as ProposalState.objects.

    ProposalClosed where nothing can be decided any more, or the objects are not those that the change was held for.
    """
    _check_open(state, now_ms)
    if not _is_held_for(state, objects):
        raise stale(state)
    return ProposalApproved(by)


def decide_reject(state: ProposalState, by: str, reason: str, now_ms: int) -> ProposalRejected:
    """ProposalClosed where nothing can be decided any more."""
    _check_open(state, now_ms)
    return ProposalRejected(by, reason)


def decide_expire(state: ProposalState, now_ms: int) -> ProposalExpired | None:
    """None where it is closed already, or has time left."""
    return ProposalExpired() if state.status == "open" and _lapsed(state, now_ms) else None


def decide_stale(state: ProposalState, now_ms: int) -> ProposalStale:
    """For one whose objects are not what they were. ProposalClosed where nothing can be decided any more."""
    _check_open(state, now_ms)
    return ProposalStale()


def stale(state: ProposalState) -> ProposalClosed:
    """The refusal of an approval that comes too late for its objects."""
    return ProposalClosed(f"Proposal {state.id} is stale: an object that it changes was changed, replaced or dropped since it was opened")


def _check_open(state: ProposalState, now_ms: int) -> None:
    if state.status != "open":
        raise ProposalClosed(f"Proposal {state.id} is {state.status}")
    if _lapsed(state, now_ms):
        raise ProposalClosed(f"Proposal {state.id} expired at {time_text(state.expires_at_ms)}")


def _lapsed(state: ProposalState, now_ms: int) -> bool:
    """Its time is up, though nobody may have said so in the log yet."""
    return now_ms >= state.expires_at_ms


def _is_held_for(state: ProposalState, objects: Sequence[Json]) -> bool:
    """Whether a change of these objects is the one that was held: the same things, each with no event since, in the same places."""
    return all("event-id" in each for each in state.objects) and [*map(_held_for, state.objects)] == [*map(_held_for, objects)]


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
            event.command,
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
