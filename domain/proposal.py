"""Proposals, which are changes that a hook held: decides their commands and folds their events."""

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

    command_key -- equal for two requests for the same change; a key has at most one open proposal.
    operation, command -- the command as domain/stored_commands.py encodes it.
    objects -- the objects of the change: `kind`, `id`, `name` (levels, outermost first), `event-id` and `parent-id` (domain/events.py).
    actor -- the principal that requested the change; decided_by, decision_reason -- who approved or rejected it, and why.
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
    """A change that a hook holds. Fields with the same names as in ProposalState have the same meaning."""

    operation: str
    command_key: str
    command: Json
    actor: str
    hook: str
    reason: str
    expires_in_seconds: float
    objects: list[Json]


class OpenDecision(NamedTuple):
    """The result of holding a change.

    closes -- the event that closes the open proposal for the same change; None if there was none or it stays open.
    opens -- the new proposal; None if the open one already contains this change.
    """

    closes: ProposalExpired | ProposalStale | None
    opens: ProposalOpened | None


def decide_open(open_one: ProposalState | None, held: HeldChange, now_ms: int) -> OpenDecision:
    """`open_one` -- the open proposal for the same change, if any."""
    closes: ProposalExpired | ProposalStale | None = None
    if open_one is not None:
        if _has_expired(open_one, now_ms):
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
    """`objects` -- the objects of the change in the current state, as ProposalState.objects.

    Raises ProposalClosed if the proposal is closed or expired, or the objects are not those of the held change.
    """
    _check_open(state, now_ms)
    if not _is_held_for(state, objects):
        raise stale(state)
    return ProposalApproved(by)


def decide_reject(state: ProposalState, by: str, reason: str, now_ms: int) -> ProposalRejected:
    """Raises ProposalClosed if the proposal is closed or expired."""
    _check_open(state, now_ms)
    return ProposalRejected(by, reason)


def decide_expire(state: ProposalState, now_ms: int) -> ProposalExpired | None:
    """None if it is closed already or has not expired."""
    return ProposalExpired() if state.status == "open" and _has_expired(state, now_ms) else None


def decide_stale(state: ProposalState, now_ms: int) -> ProposalStale:
    """Closes a proposal whose objects have changed. Raises ProposalClosed if it is closed or expired."""
    _check_open(state, now_ms)
    return ProposalStale()


def stale(state: ProposalState) -> ProposalClosed:
    """The refusal of an approval whose objects have changed."""
    return ProposalClosed(f"Proposal {state.id} is stale: an object that it changes was changed, replaced or dropped since it was opened")


def _check_open(state: ProposalState, now_ms: int) -> None:
    if state.status != "open":
        raise ProposalClosed(f"Proposal {state.id} is {state.status}")
    if _has_expired(state, now_ms):
        raise ProposalClosed(f"Proposal {state.id} expired at {time_text(state.expires_at_ms)}")


def _has_expired(state: ProposalState, now_ms: int) -> bool:
    """Whether it has expired, even if the log does not have that event yet."""
    return now_ms >= state.expires_at_ms


def _is_held_for(state: ProposalState, objects: Sequence[Json]) -> bool:
    """Whether a change of these objects is the one that was held: the same objects with the same newest events and parents."""
    return all("event-id" in each for each in state.objects) and [*map(_held_for, state.objects)] == [*map(_held_for, objects)]


def _held_for(each: Json) -> tuple[Json, ...]:
    # The id of an object to be created differs each time the command is decided.
    return each["kind"], each["event-id"] and each["id"], each["event-id"], each["parent-id"]


def time_text(milliseconds: int) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_text_or_none(milliseconds: int | None) -> str | None:
    """As `time_text`."""
    return None if milliseconds is None else time_text(milliseconds)


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
    raise AssertionError(f"{type(event).__name__} is not an event of a proposal")


def claims(state: ProposalState) -> frozenset[Claim]:
    """The key of the change is claimed while the proposal is open, so that no second one is opened."""
    if state.status != "open":
        return frozenset()
    return frozenset({NameClaim("proposal", state.warehouse_id, state.command_key, state.id)})
