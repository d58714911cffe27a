"""Warehouse, given-when-then: creation, its event, and its claim."""

from uuid import UUID

import pytest

from icecore.domain.claims import NameClaim
from icecore.domain.errors import AlreadyExists, BadRequest
from icecore.domain.events import NamespaceDropped, WarehouseCreated
from icecore.domain.warehouse import WarehouseState, claims, decide_create, evolve

STREAM, PROJECT = UUID(int=1), UUID(int=2)
PROFILE = {"type": "local", "directory": "/w"}


@pytest.mark.parametrize("exact", [False, True])
def test_a_warehouse_is_found_by_its_name_in_any_case(exact: bool) -> None:
    """Whether names inside are case-sensitive is separate. The credential is added later."""
    assert WarehouseCreated("Démo", "démo", PROFILE, None, exact) == decide_create("Démo", PROFILE, exact_names=exact, taken=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Invalid warehouse name: must not be empty"),
        ("a\nb", "Invalid warehouse name: contains a control character"),
        ("demo@7", "Invalid warehouse name: must not contain '@'"),
        ("a/b", "Invalid warehouse name: must not contain '/'"),
    ],
)
def test_a_name_that_could_not_be_asked_for_is_refused(name: str, message: str) -> None:
    """`@` precedes a point in time, `/` separates path segments."""
    with pytest.raises(BadRequest) as refusal:
        decide_create(name, PROFILE, exact_names=False, taken=False)
    assert message == refusal.value.message


def test_a_name_that_is_taken_is_refused() -> None:
    """Given a warehouse of that name, when another is created, then AlreadyExists is raised."""
    with pytest.raises(AlreadyExists) as refusal:
        decide_create("demo", PROFILE, exact_names=False, taken=True)
    assert "Warehouse already exists: demo" == refusal.value.message


def test_a_created_warehouse_claims_its_name_in_its_project() -> None:
    """Given nothing, when it is created, then its state is that of the event."""
    state = evolve(STREAM, 1, UUID(int=101), PROJECT, decide_create("Demo", PROFILE, exact_names=True, taken=False))
    assert WarehouseState(STREAM, 1, UUID(int=101), PROJECT, "Demo", "demo", PROFILE, None, True) == state
    assert {NameClaim("warehouse", PROJECT, "demo", STREAM)} == claims(state)


def test_an_event_of_something_else_is_no_event_of_a_warehouse() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="NamespaceDropped"):
        evolve(STREAM, 1, UUID(int=101), PROJECT, NamespaceDropped())
