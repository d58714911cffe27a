"""Proposal, given-when-then: opened, approved, rejected, expired or stale; events folded, and the change claimed while it is open."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.claims import NameClaim
from icecore.domain.errors import ProposalClosed
from icecore.domain.events import (
    Event,
    NamespaceDropped,
    ProposalApproved,
    ProposalExpired,
    ProposalOpened,
    ProposalRejected,
    ProposalStale,
)
from icecore.domain.proposal import (
    HeldChange,
    OpenDecision,
    ProposalState,
    claims,
    decide_approve,
    decide_expire,
    decide_open,
    decide_reject,
    decide_stale,
    evolve,
    time_text,
)

ID, WAREHOUSE, FIRST, SECOND = (UUID(int=number) for number in range(1, 5))
TABLE: dict[str, Any] = {"kind": "table", "id": "t", "name": ["a", "t"], "event-id": "e", "parent-id": "p"}
NEW: dict[str, Any] = {"kind": "view", "id": "v", "name": ["a", "v"], "event-id": None, "parent-id": "p"}
OPENED_AT_MS, EXPIRES_AT_MS = 1_700_000_000_001, 1_700_000_060_000
OPENED = ProposalOpened("updateTable", "key", {"table": {}}, "someone", "hook", "reason", OPENED_AT_MS, EXPIRES_AT_MS, [TABLE, NEW])


def an_open_one() -> ProposalState:
    return evolve(None, ID, 1, FIRST, WAREHOUSE, OPENED)


@pytest.mark.parametrize(("text", "milliseconds"), [("1970-01-01T00:00:00.000Z", 0), ("2023-11-14T22:13:20.001Z", OPENED_AT_MS)])
def test_times_are_shown_in_utc_with_milliseconds(text: str, milliseconds: int) -> None:
    """RFC 3339, with Z."""
    assert text == time_text(milliseconds)


def decisions(state: ProposalState, now_ms: int) -> list[Callable[[], Event]]:
    """All decisions on an open proposal."""
    return [
        lambda: decide_approve(state, [TABLE, NEW], "me", now_ms),
        lambda: decide_reject(state, "me", "no", now_ms),
        lambda: decide_stale(state, now_ms),
    ]


def test_it_is_open_until_its_time_is_up() -> None:
    """Given an open one, when its time is up, then nothing is decided any more but that it expired."""
    state = an_open_one()
    assert [ProposalApproved("me"), ProposalRejected("me", "no"), ProposalStale()] == [
        decide() for decide in decisions(state, EXPIRES_AT_MS - 1)
    ]
    assert decide_expire(state, EXPIRES_AT_MS - 1) is None
    for now_ms in (EXPIRES_AT_MS, EXPIRES_AT_MS + 1):
        for decide in decisions(state, now_ms):
            with pytest.raises(ProposalClosed) as refusal:
                decide()
            assert f"Proposal {ID} expired at 2023-11-14T22:14:20.000Z" == refusal.value.message
        assert ProposalExpired() == decide_expire(state, now_ms)


def held(objects: list[dict[str, Any]]) -> HeldChange:
    return HeldChange("updateTable", "key", {"table": {}}, "another", "second hook", "second reason", 1.5, objects)


def reopened(objects: list[dict[str, Any]], now_ms: int) -> ProposalOpened:
    return ProposalOpened("updateTable", "key", {"table": {}}, "another", "second hook", "second reason", now_ms, now_ms + 1500, objects)


def test_a_held_change_opens_a_proposal() -> None:
    """Given none for the same change, when a hook holds it, then one is open for the time that the hook set."""
    assert OpenDecision(None, reopened([TABLE, NEW], 7)) == decide_open(None, held([TABLE, NEW]), 7)


def test_the_same_change_asked_for_again_is_the_same_proposal() -> None:
    """Given an open one, when the same change is held again, then nothing happens."""
    assert OpenDecision(None, None) == decide_open(an_open_one(), held([TABLE, {**NEW, "id": "another"}]), EXPIRES_AT_MS - 1)


def test_one_that_is_stale_gives_way_to_a_new_one() -> None:
    """Given an open one, when the same change is held on objects that have changed, then it is closed and another is opened."""
    changed = [{**TABLE, "event-id": "later"}, NEW]
    now_ms = EXPIRES_AT_MS - 1
    assert OpenDecision(ProposalStale(), reopened(changed, now_ms)) == decide_open(an_open_one(), held(changed), now_ms)


def test_one_whose_time_is_up_gives_way_to_a_new_one() -> None:
    """Given an expired one that is still open, when the same change is held, then it is closed as expired, in whatever state its objects
    are.
    """
    changed = [{**TABLE, "event-id": "later"}, NEW]
    for objects in ([TABLE, NEW], changed):
        expected = OpenDecision(ProposalExpired(), reopened(objects, EXPIRES_AT_MS))
        assert expected == decide_open(an_open_one(), held(objects), EXPIRES_AT_MS)


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
    """It is closed, whatever time it had left, and its change may be requested again."""
    state = an_open_one()
    assert {NameClaim("proposal", WAREHOUSE, "key", ID)} == claims(state)
    ended = evolve(state, ID, 2, SECOND, WAREHOUSE, event)
    assert replace(state, version=2, event_id=SECOND, status=status, decided_by=decided_by, decision_reason=reason) == ended
    assert frozenset() == claims(ended)
    for decide in decisions(ended, OPENED_AT_MS):
        with pytest.raises(ProposalClosed, match=f"Proposal {ID} is {status}"):
            decide()
    assert decide_expire(ended, EXPIRES_AT_MS) is None


def test_events_of_others_are_refused() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="NamespaceDropped is not an event of a proposal"):
        evolve(an_open_one(), ID, 2, SECOND, WAREHOUSE, NamespaceDropped())


@pytest.mark.parametrize(
    ("same", "change"),
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
def test_it_is_approved_for_the_same_objects_and_parents(same: bool, change: Callable[[], list[dict[str, Any]]]) -> None:
    """Names may change, and an object to be created has another id each time."""
    if same:
        assert ProposalApproved("me") == decide_approve(an_open_one(), change(), "me", OPENED_AT_MS)
        return
    with pytest.raises(ProposalClosed, match=f"Proposal {ID} is stale"):
        decide_approve(an_open_one(), change(), "me", OPENED_AT_MS)


def test_one_of_a_log_that_named_no_events_is_held_for_nothing() -> None:
    """Older logs have no event ids, so the objects cannot be compared."""
    old = {name: value for name, value in TABLE.items() if name != "event-id"}
    with pytest.raises(ProposalClosed, match="is stale"):
        decide_approve(replace(an_open_one(), objects=[old]), [TABLE], "me", OPENED_AT_MS)
