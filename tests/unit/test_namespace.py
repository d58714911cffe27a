"""Namespace, given-when-then: properties changed, events folded, names claimed."""

from dataclasses import replace
from uuid import UUID

import pytest

from domain.claims import NameClaim
from domain.errors import UnprocessableEntity
from domain.events import Event, NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged, TableUnregistered
from domain.namespace import NamespaceState, change_properties, claims, evolve

STREAM, WAREHOUSE, PARENT = (UUID(int=n) for n in (1, 2, 3))
CREATED = NamespaceCreated(PARENT, "Sales", "sales", {"keep": "1", "change": "1"})


def folded(*events: Event) -> NamespaceState:
    """The state after `events`, each under an event id that is its version."""
    state: NamespaceState | None = None
    for version, event in enumerate(events, start=1):
        state = evolve(state, STREAM, version, UUID(int=100 + version), WAREHOUSE, event)
    assert state is not None
    return state


def test_a_created_namespace_lives_with_its_properties() -> None:
    """Given nothing, when it is created, then it is what the event says."""
    expected = NamespaceState(STREAM, 1, UUID(int=101), WAREHOUSE, PARENT, "Sales", "sales", "live", {"keep": "1", "change": "1"})
    assert expected == folded(CREATED)


def test_changed_properties_are_folded() -> None:
    """Given properties, when some change and some go, then the rest stays."""
    state = folded(CREATED, NamespacePropertiesChanged({"new": "2"}, ["change"]))
    assert (2, UUID(int=102), {"keep": "1", "new": "2"}) == (state.version, state.event_id, state.properties)


def test_the_fold_leaves_the_state_before_as_it_was() -> None:
    """Given a state, when an event is folded on it, then the old state still says what it said."""
    before = folded(CREATED)
    evolve(before, STREAM, 2, UUID(int=102), WAREHOUSE, NamespacePropertiesChanged({"keep": "9"}, ["change"]))
    assert {"keep": "1", "change": "1"} == before.properties


def test_a_dropped_namespace_is_dropped_and_claims_nothing() -> None:
    """Given a namespace, when it is dropped, then its name is free and the rest is known."""
    state = folded(CREATED, NamespaceDropped())
    assert replace(folded(CREATED), version=2, event_id=UUID(int=102), status="dropped") == state
    assert frozenset() == claims(state)


def test_a_living_namespace_claims_its_name_in_its_parent() -> None:
    """The claim is by the folded name, and owned by the namespace."""
    assert frozenset({NameClaim("namespace", PARENT, "sales", STREAM)}) == claims(folded(CREATED))


def test_an_event_of_something_else_is_no_event_of_a_namespace() -> None:
    """It is a fault of the program, never ignored."""
    with pytest.raises(AssertionError, match="TableUnregistered"):
        folded(CREATED, TableUnregistered())


def test_an_update_says_what_it_updated_removed_and_missed() -> None:
    """Given two properties, when one is changed, one removed, one set and one absent is removed, then each is named."""
    changes = change_properties(folded(CREATED), ["keep", "absent"], {"change": "2", "new": "3"})
    assert (["change", "new"], ["keep"], ["absent"]) == (changes.updated, changes.removed, changes.missing)
    assert NamespacePropertiesChanged({"change": "2", "new": "3"}, ["keep"]) == changes.event


def test_the_event_names_only_what_changes() -> None:
    """What is set to the value it has is updated for the client, and no news for the log."""
    changes = change_properties(folded(CREATED), [], {"keep": "1", "change": "2"})
    assert ["keep", "change"] == changes.updated
    assert NamespacePropertiesChanged({"change": "2"}, []) == changes.event


@pytest.mark.parametrize(("removals", "updates"), [([], {}), (["absent"], {}), ([], {"keep": "1"}), (["absent", "absent"], {"keep": "1"})])
def test_nothing_changed_is_no_event(removals: list[str], updates: dict[str, str]) -> None:
    """The log grows by changes only."""
    assert change_properties(folded(CREATED), removals, updates).event is None


def test_a_key_named_twice_is_answered_once() -> None:
    """Removals are a set, whatever the client's list says."""
    changes = change_properties(folded(CREATED), ["keep", "keep", "absent", "absent"], {})
    assert (["keep"], ["absent"]) == (changes.removed, changes.missing)
    assert NamespacePropertiesChanged({}, ["keep"]) == changes.event


@pytest.mark.parametrize("key", ["keep", "absent"])
def test_a_key_both_set_and_removed_is_refused(key: str) -> None:
    """422 in Java's words, whether the key is there or not."""
    with pytest.raises(UnprocessableEntity, match=rf"cannot simultaneously set and remove keys: \[{key}\]"):
        change_properties(folded(CREATED), [key], {key: "2"})
