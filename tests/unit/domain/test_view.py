"""View, given-when-then: decisions of commands, effects of events, and claims."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.claims import LocationClaim, NameClaim
from icecore.domain.errors import AlreadyExists, CommitFailed
from icecore.domain.events import Event, NamespaceDropped, ViewCommitted, ViewCreated, ViewDropped, ViewRegistered, ViewRenamed
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.names import FreeName, ResolvedName
from icecore.domain.view import ViewState, claims, decide_commit, decide_create, decide_drop, decide_register, decide_rename, evolve
from icecore.domain.view_metadata.builder import new_view_metadata

STREAM, WAREHOUSE, NAMESPACE, OTHER = (UUID(int=n) for n in (1, 2, 3, 4))
NOW = 1_800_000_000_000
LOCATION, FILE, KEY = "file:///w/v", "file:///w/v/metadata/00000-a.metadata.json", "local|file:///w/v/"
SALES_ORDERS = TabularIdentifier(NamespaceIdentifier(("Sales",)), "Orders")
FREE = FreeName(NAMESPACE, "Orders", "orders")
METADATA = new_view_metadata(
    view_uuid="00000000-0000-0000-0000-000000000009",
    location=LOCATION,
    schema={"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
    view_version={
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": NOW,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["Sales"],
    },
    properties={"k": "1"},
    now_ms=NOW,
)
CREATED = ViewCreated(NAMESPACE, "Orders", "orders", KEY, FILE, METADATA)
NAME, PLACE = NameClaim("tabular", NAMESPACE, "orders", STREAM), LocationClaim(KEY, STREAM)
SET = {"action": "set-properties", "updates": {"k": "2"}}
MOVE = {"action": "set-location", "location": "file:///w/u"}


def folded(*events: Event) -> ViewState:
    """The state after `events`, each under an event id that is its version."""
    state: ViewState | None = None
    for version, event in enumerate(events, start=1):
        state = evolve(state, STREAM, version, UUID(int=100 + version), WAREHOUSE, event)
    assert state is not None
    return state


def committed(state: ViewState, *updates: dict[str, Any], key: str | None = None) -> ViewCommitted:
    """The event of a commit of `updates`."""
    change = decide_commit(state, [], updates, NOW + 1)
    assert change is not None
    return change.event(f"{change.metadata['location']}/metadata/00001-b.metadata.json", key, None)


PATHS = [[], None, ["local|file:///w/data/"]]


@pytest.mark.parametrize("paths", PATHS)
@pytest.mark.parametrize("registered", [False, True])
def test_a_view_begins_as_it_was_decided(registered: bool, paths: list[str] | None) -> None:
    """Given a free name and a first document, it exists with that name and claims its locations."""
    decide, of = (decide_register, ViewRegistered) if registered else (decide_create, ViewCreated)
    event = decide(FREE, METADATA, FILE, KEY, paths)
    assert of(NAMESPACE, "Orders", "orders", KEY, FILE, METADATA, paths or None) == event
    state = folded(event)
    expected = ViewState(STREAM, 1, UUID(int=101), WAREHOUSE, NAMESPACE, "Orders", "orders", "live", FILE, (KEY, *(paths or [])), METADATA)
    assert expected == state
    assert {NAME, PLACE, *(LocationClaim(path, STREAM) for path in paths or [])} == claims(state)


def test_a_commit_is_folded_from_its_delta() -> None:
    """Given a view, when a commit is decided and folded, then its document is what was decided."""
    state = folded(CREATED)
    change = decide_commit(state, [], [SET], NOW + 1)
    assert change is not None
    event = change.event("file:///w/v/metadata/00001-b.metadata.json", None, ["local|file:///w/data/"])
    assert (["set-properties"], ["local|file:///w/data/"]) == (event.actions, event.path_keys)
    after = folded(CREATED, event)
    assert ({"k": "2"}, change.metadata, False) == (after.metadata["properties"], after.metadata, change.location_changed)
    assert (2, UUID(int=102), event.metadata_location, (KEY, "local|file:///w/data/")) == (
        after.version,
        after.event_id,
        after.metadata_location,
        after.location_keys,
    )


def test_a_moved_view_claims_both_locations_until_it_is_dropped() -> None:
    """Given a view, when it moves, then writers at the old location are safe from other objects."""
    move = committed(folded(CREATED), MOVE, key="local|file:///w/u/")
    both = {PLACE, LocationClaim("local|file:///w/u/", STREAM)}
    assert {NAME, *both} == claims(folded(CREATED, move))
    assert set() == claims(folded(CREATED, move, ViewDropped()))


def test_a_commit_without_effect_decides_nothing() -> None:
    """Nothing is written or recorded."""
    assert decide_commit(folded(CREATED), [], [{"action": "set-location", "location": LOCATION}], NOW + 1) is None


def test_a_requirement_is_checked_before_any_update() -> None:
    """Even if the update itself is invalid."""
    wrong = [{"type": "assert-view-uuid", "uuid": "00000000-0000-0000-0000-000000000008"}]
    with pytest.raises(CommitFailed, match="UUID does not match"):
        decide_commit(folded(CREATED), wrong, [{"action": "set-current-view-version", "view-version-id": 7}], NOW)


def test_a_rename_changes_the_name_alone() -> None:
    """Given a view, when it is renamed across namespaces, then all else stays."""
    bills = TabularIdentifier(NamespaceIdentifier(("Paid",)), "Bills")
    event = decide_rename(folded(CREATED), ResolvedName(OTHER, None, None, "file:///w/n"), SALES_ORDERS, bills, "bills")
    assert ViewRenamed(OTHER, "Bills", "bills") == event
    expected = replace(folded(CREATED), version=2, event_id=UUID(int=102), namespace_id=OTHER, name="Bills", name_key="bills")
    assert expected == folded(CREATED, event)


def test_a_rename_to_the_name_it_has_decides_nothing() -> None:
    """The same name in another namespace is another name, as is another spelling."""
    view, own = folded(CREATED), ResolvedName(NAMESPACE, STREAM, "view", "file:///w/n")
    assert decide_rename(view, own, SALES_ORDERS, SALES_ORDERS, "orders") is None
    elsewhere = ResolvedName(OTHER, None, None, "file:///w/n")
    assert ViewRenamed(OTHER, "Orders", "orders") == decide_rename(view, elsewhere, SALES_ORDERS, SALES_ORDERS, "orders")
    upper = TabularIdentifier(SALES_ORDERS.namespace, "ORDERS")
    assert ViewRenamed(NAMESPACE, "ORDERS", "orders") == decide_rename(view, own, SALES_ORDERS, upper, "orders")


def test_a_rename_over_something_else_is_refused() -> None:
    """As for all tables and views."""
    with pytest.raises(AlreadyExists, match="Cannot rename"):
        decide_rename(folded(CREATED), ResolvedName(NAMESPACE, OTHER, "table", "file:///w/n"), SALES_ORDERS, SALES_ORDERS, "orders")


def test_a_dropped_view_is_forgotten_once() -> None:
    """Its name and locations are free. A dropped view has no name by which a command could find it."""
    view = folded(CREATED)
    gone = folded(CREATED, decide_drop(view))
    assert replace(view, version=2, event_id=UUID(int=102), status="dropped") == gone
    assert set() == claims(gone)
    with pytest.raises(AssertionError, match="a dropped view has no name"):
        decide_drop(gone)


def test_an_event_of_something_else_is_no_event_of_a_view() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="NamespaceDropped"):
        folded(CREATED, NamespaceDropped())
