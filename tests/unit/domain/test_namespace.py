"""Namespace, given-when-then: properties changed, events folded, names claimed."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.domain.claims import LocationClaim, NameClaim
from icecore.domain.errors import AlreadyExists, BadRequest, NamespaceNotEmpty, NamespaceProtected, NoSuchNamespace, UnprocessableEntity
from icecore.domain.events import (
    Event,
    NamespaceCreated,
    NamespaceDropped,
    NamespacePropertiesChanged,
    NamespaceProtectionChanged,
    TableUnregistered,
)
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.domain.namespace import (
    NamespaceState,
    claims,
    decide_create,
    decide_drop,
    decide_parent,
    decide_protection,
    decide_update,
    evolve,
)
from icecore.domain.properties import PropertyUpdate

STREAM, WAREHOUSE, PARENT = (UUID(int=n) for n in (1, 2, 3))
LOCATION, KEY = "file:///w/n", "local|file:///w/n/"
CREATED = NamespaceCreated(PARENT, "Sales", "sales", KEY, {"keep": "1", "change": "1", "location": LOCATION})
NAME, PLACE = NameClaim("namespace", PARENT, "sales", STREAM), LocationClaim(KEY, STREAM, "namespace")


def folded(*events: Event) -> NamespaceState:
    """The state after `events`, each under an event id that is its version."""
    state: NamespaceState | None = None
    for version, event in enumerate(events, start=1):
        state = evolve(state, STREAM, version, UUID(int=100 + version), WAREHOUSE, event)
    assert state is not None
    return state


def test_a_created_namespace_lives_with_its_properties() -> None:
    """Given nothing, when it is created, then its state is that of the event."""
    properties = {"keep": "1", "change": "1", "location": LOCATION}
    expected = NamespaceState(STREAM, 1, UUID(int=101), WAREHOUSE, PARENT, "Sales", "sales", "live", KEY, properties)
    assert (expected, LOCATION) == (folded(CREATED), expected.location)


def test_changed_properties_are_folded() -> None:
    """Given properties, when some change and some go, then the rest stays."""
    state = folded(CREATED, NamespacePropertiesChanged({"new": "2"}, ["change"]))
    assert (2, UUID(int=102), {"keep": "1", "new": "2", "location": LOCATION}) == (state.version, state.event_id, state.properties)


def test_the_fold_leaves_the_state_before_as_it_was() -> None:
    """Given a state, when an event is folded on it, then the old state is unchanged."""
    before = folded(CREATED)
    evolve(before, STREAM, 2, UUID(int=102), WAREHOUSE, NamespacePropertiesChanged({"keep": "9"}, ["change"]))
    assert {"keep": "1", "change": "1", "location": LOCATION} == before.properties


def test_a_dropped_namespace_is_dropped_and_claims_nothing() -> None:
    """Given a namespace, when it is dropped, then its name and location are free and the rest is known."""
    state = folded(CREATED, NamespaceDropped())
    assert replace(folded(CREATED), version=2, event_id=UUID(int=102), status="dropped") == state
    assert frozenset() == claims(state)


def test_a_living_namespace_claims_its_name_in_its_parent_and_its_location() -> None:
    """The claims are by the folded name and the location's key, and owned by the namespace."""
    assert frozenset({NAME, PLACE}) == claims(folded(CREATED))


def test_an_event_of_something_else_is_no_event_of_a_namespace() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="TableUnregistered"):
        folded(CREATED, TableUnregistered())


NESTED = NamespaceIdentifier(("Shop", "Sales"))


def test_a_namespace_is_created_in_its_parent() -> None:
    """Given a free name and a parent, the event has the name; it lives, and claims that name there. A property has the location as it was
    permitted, not as the client spelled it.
    """
    parent_id = decide_parent(NESTED, taken=False, parent_id=PARENT)
    event = decide_create(parent_id, "Sales", "sales", LOCATION, KEY, {"keep": "1", "change": "1", "location": f"{LOCATION}/"})
    assert CREATED == event
    assert {NAME, PLACE} == claims(folded(event))


def test_a_name_that_is_taken_is_not_created_again() -> None:
    """The message has the client's spelling. The parent is not checked."""
    with pytest.raises(AlreadyExists, match=r"^Namespace already exists: Shop\.Sales$"):
        decide_parent(NESTED, taken=True, parent_id=None)


def test_a_namespace_needs_its_parent() -> None:
    """The message names the parent."""
    with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: Shop$"):
        decide_parent(NESTED, taken=False, parent_id=None)


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_only_an_empty_namespace_is_dropped(kind: str) -> None:
    """The message names the kind of what it contains."""
    state = evolve(None, STREAM, 1, UUID(int=101), WAREHOUSE, CREATED)
    assert NamespaceDropped() == decide_drop(state, NESTED, None)
    for force in (False, True):
        with pytest.raises(NamespaceNotEmpty, match=rf"^Namespace Shop\.Sales is not empty: it contains a {kind}$"):
            decide_drop(state, NESTED, kind, force=force)


def test_a_protected_namespace_is_dropped_only_with_force() -> None:
    """Changes of its properties keep the protection; a repeated change is no event."""
    state = evolve(None, STREAM, 1, UUID(int=101), WAREHOUSE, CREATED)
    assert decide_protection(state, protected=False) is None
    assert NamespaceProtectionChanged(True) == decide_protection(state, protected=True)
    state = evolve(state, STREAM, 2, UUID(int=102), WAREHOUSE, NamespaceProtectionChanged(True))
    state = evolve(state, STREAM, 3, UUID(int=103), WAREHOUSE, NamespacePropertiesChanged({"a": "1"}, []))
    assert (3, True) == (state.version, state.protected)
    with pytest.raises(NamespaceProtected, match=r"^Namespace is protected: Shop\.Sales; "):
        decide_drop(state, NESTED, None)
    assert NamespaceDropped() == decide_drop(state, NESTED, None, force=True)
    state = evolve(state, STREAM, 4, UUID(int=104), WAREHOUSE, NamespaceProtectionChanged(False))
    assert NamespaceDropped() == decide_drop(state, NESTED, None)


KEYS = st.sampled_from(["a", "b", "c", "d"])
PROPERTIES = st.dictionaries(KEYS, st.sampled_from(["1", "2"]))


@given(before=PROPERTIES, removals=st.lists(KEYS), updates=PROPERTIES)
def test_an_update_leaves_what_was_asked_for(before: dict[str, str], removals: list[str], updates: dict[str, str]) -> None:
    """The removed property is gone, the set one is set, the rest stays. The same update again changes nothing."""
    updates = {key: value for key, value in updates.items() if key not in removals}
    state = folded(replace(CREATED, properties={**before, "location": LOCATION}))
    changes = decide_update(state, PropertyUpdate(removals, updates))
    after = state if changes.event is None else evolve(state, STREAM, 2, UUID(int=102), WAREHOUSE, changes.event)
    expected = {key: value for key, value in before.items() if key not in removals} | updates
    assert expected | {"location": LOCATION} == after.properties
    assert (changes.event is None) == (expected == before)
    assert decide_update(after, PropertyUpdate(removals, updates)).event is None
    assert ({*updates}, {*removals}) == ({*changes.updated}, {*changes.removed, *changes.missing})


def test_an_update_says_what_it_updated_removed_and_missed() -> None:
    """Given two properties, when one is changed, one removed, one set and one absent is removed, then each is named."""
    changes = decide_update(folded(CREATED), PropertyUpdate(["keep", "absent"], {"change": "2", "new": "3"}))
    assert (["change", "new"], ["keep"], ["absent"]) == (changes.updated, changes.removed, changes.missing)
    assert NamespacePropertiesChanged({"change": "2", "new": "3"}, ["keep"]) == changes.event


def test_the_event_names_only_what_changes() -> None:
    """A property set to its current value is updated for the client, but is not in the event."""
    changes = decide_update(folded(CREATED), PropertyUpdate([], {"keep": "1", "change": "2"}))
    assert ["keep", "change"] == changes.updated
    assert NamespacePropertiesChanged({"change": "2"}, []) == changes.event


@pytest.mark.parametrize(("removals", "updates"), [([], {}), (["absent"], {}), ([], {"keep": "1"}), (["absent", "absent"], {"keep": "1"})])
def test_nothing_changed_is_no_event(removals: list[str], updates: dict[str, str]) -> None:
    """The log contains only changes."""
    assert decide_update(folded(CREATED), PropertyUpdate(removals, updates)).event is None


def test_a_key_named_twice_is_answered_once() -> None:
    """Removals are a set."""
    changes = decide_update(folded(CREATED), PropertyUpdate(["keep", "keep", "absent", "absent"], {}))
    assert (["keep"], ["absent"]) == (changes.removed, changes.missing)
    assert NamespacePropertiesChanged({}, ["keep"]) == changes.event


@pytest.mark.parametrize("key", ["keep", "absent"])
def test_a_key_both_set_and_removed_is_refused(key: str) -> None:
    """422 with Java's message, whether or not the key exists."""
    with pytest.raises(UnprocessableEntity, match=rf"cannot simultaneously set and remove keys: \[{key}\]"):
        decide_update(folded(CREATED), PropertyUpdate([key], {key: "2"}))


@pytest.mark.parametrize(
    ("removals", "updates"), [(["location"], {}), ([], {"location": "file:///w/m"}), ([], {"location": f"{LOCATION}/"})]
)
def test_the_location_is_neither_changed_nor_removed(removals: list[str], updates: dict[str, str]) -> None:
    """BadRequest, whatever else the update contains. Setting it to its value is no change."""
    with pytest.raises(BadRequest, match=f"the location of a namespace cannot be changed or removed: {LOCATION}$"):
        decide_update(folded(CREATED), PropertyUpdate(removals, {"keep": "2", **updates}))
    assert decide_update(folded(CREATED), PropertyUpdate([], {"location": LOCATION})).event is None
