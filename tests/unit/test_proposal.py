"""Proposal: what its events make of it, until when it is open, and what it is held for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from domain.claims import NameClaim
from domain.errors import ProposalClosed
from domain.events import Event, NamespaceDropped, ProposalApproved, ProposalExpired, ProposalOpened, ProposalRejected, ProposalStale
from domain.proposal import ProposalState, claims, evolve, time_text

ID, WAREHOUSE, FIRST, SECOND = (UUID(int=number) for number in range(1, 5))
TABLE: dict[str, Any] = {"kind": "table", "id": "t", "name": ["a", "t"], "event-id": "e", "parent-id": "p"}
NEW: dict[str, Any] = {"kind": "view", "id": "v", "name": ["a", "v"], "event-id": None, "parent-id": "p"}
OPENED_AT_MS, EXPIRES_AT_MS = 1_700_000_000_001, 1_700_000_060_000
OPENED = ProposalOpened("updateTable", "key", {"query": {}}, "someone", "hook", "reason", OPENED_AT_MS, EXPIRES_AT_MS, [TABLE, NEW])


def an_open_one() -> ProposalState:
    return evolve(None, ID, 1, FIRST, WAREHOUSE, OPENED)


@pytest.mark.parametrize(("text", "milliseconds"), [("1970-01-01T00:00:00.000Z", 0), ("2023-11-14T22:13:20.001Z", OPENED_AT_MS)])
def test_times_are_told_in_utc_with_milliseconds(text: str, milliseconds: int) -> None:
    """RFC 3339, with Z."""
    assert text == time_text(milliseconds)


def test_it_is_open_until_its_time_is_up() -> None:
    """The moment it expires is one at which nothing is decided any more."""
    state = an_open_one()
    state.check_open(EXPIRES_AT_MS - 1)
    for now_ms in (EXPIRES_AT_MS, EXPIRES_AT_MS + 1):
        with pytest.raises(ProposalClosed) as refusal:
            state.check_open(now_ms)
        assert f"Proposal {ID} expired at 2023-11-14T22:14:20.000Z" == refusal.value.message


@pytest.mark.parametrize(
    ("status", "event", "decided_by", "reason"),
    [
        ("approved", ProposalApproved("me"), "me", None),
        ("rejected", ProposalRejected("me", "no"), "me", "no"),
        ("expired", ProposalExpired(), None, None),
        ("stale", ProposalStale(), None, None),
    ],
)
def test_what_ends_it_leaves_the_rest(status: Any, event: Event, decided_by: str | None, reason: str | None) -> None:
    """It is closed, for whatever time it had, and lets its change be asked for again."""
    state = an_open_one()
    assert {NameClaim("proposal", WAREHOUSE, "key", ID)} == claims(state)
    ended = evolve(state, ID, 2, SECOND, WAREHOUSE, event)
    assert replace(state, version=2, event_id=SECOND, status=status, decided_by=decided_by, decision_reason=reason) == ended
    assert frozenset() == claims(ended)
    with pytest.raises(ProposalClosed, match=f"Proposal {ID} is {status}"):
        ended.check_open(OPENED_AT_MS)


def test_events_of_others_are_refused() -> None:
    """It is a fault of the program."""
    with pytest.raises(AssertionError, match="NamespaceDropped is no event of a proposal"):
        evolve(an_open_one(), ID, 2, SECOND, WAREHOUSE, NamespaceDropped())


@pytest.mark.parametrize(
    ("held", "change"),
    [
        (True, lambda: [TABLE, NEW]),
        (True, lambda: [{**TABLE, "name": ["a", "renamed"]}, {**NEW, "id": "another"}]),
        (False, lambda: [TABLE]),
        (False, lambda: [NEW, TABLE]),
        (False, lambda: [TABLE, NEW, NEW]),
        *((False, lambda member=member: [{**TABLE, member: "other"}, NEW]) for member in ("kind", "id", "event-id", "parent-id")),
        *((False, lambda member=member: [TABLE, {**NEW, member: "other"}]) for member in ("kind", "event-id", "parent-id")),
    ],
)
def test_it_is_held_for_the_same_things_in_the_same_places(held: bool, change: Callable[[], list[dict[str, Any]]]) -> None:
    """Names may change, and what is to be created has another id each time."""
    assert held == an_open_one().is_held_for(change())


def test_one_of_a_log_that_named_no_events_is_held_for_nothing() -> None:
    """Older logs have none: nobody can say that the objects are the same."""
    old = {name: value for name, value in TABLE.items() if name != "event-id"}
    assert not replace(an_open_one(), objects=[old]).is_held_for([TABLE])
