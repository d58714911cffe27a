"""Names of tables and views: who may take one, and the error messages."""

from typing import Literal
from uuid import UUID

import pytest

from icecore.domain.errors import AlreadyExists, CatalogError, CommitFailed, NoSuchNamespace
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.names import FreeName, ResolvedName, decide_destination, decide_new_name

NAMESPACE, TABLE, OTHER = (UUID(int=n) for n in (1, 2, 3))
LOCATION = "file:///w/n"
ORDERS = TabularIdentifier(NamespaceIdentifier(("Sales",)), "Orders")
BILLS = TabularIdentifier(NamespaceIdentifier(("Paid",)), "Bills")
Kind = Literal["table", "view"]


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("kind", ["table", "view"])
def test_an_unused_name_is_free(kind: Kind, staged: bool) -> None:
    """In the namespace that was found, as spelled, with its name key."""
    assert FreeName(NAMESPACE, "Orders", "orders") == decide_new_name(
        ResolvedName(NAMESPACE, None, None, LOCATION), ORDERS, "orders", kind, staged=staged
    )


@pytest.mark.parametrize(
    ("holder", "kind", "staged", "error", "message"),
    [
        (None, "table", False, NoSuchNamespace, "Namespace does not exist: Sales"),
        (None, "table", True, NoSuchNamespace, "Namespace does not exist: Sales"),
        ("table", "table", False, AlreadyExists, "Table already exists: Sales.Orders"),
        ("view", "table", False, AlreadyExists, "View with same name already exists: Sales.Orders"),
        ("view", "view", False, AlreadyExists, "View already exists: Sales.Orders"),
        ("table", "view", False, AlreadyExists, "Table with same name already exists: Sales.Orders"),
        ("table", "table", True, CommitFailed, "Requirement failed: table already exists: Sales.Orders"),
        ("view", "table", True, AlreadyExists, "View with same name already exists: Sales.Orders"),
    ],
)
def test_a_name_that_is_taken_is_refused(holder: str | None, kind: Kind, staged: bool, error: type[CatalogError], message: str) -> None:
    """Tables and views share one name space. Completing a staged create violates its requirement instead."""
    found = None if holder is None else ResolvedName(NAMESPACE, TABLE, holder, LOCATION)
    with pytest.raises(CatalogError) as refusal:
        decide_new_name(found, ORDERS, "orders", kind, staged=staged)
    assert (error, message) == (type(refusal.value), refusal.value.message)


@pytest.mark.parametrize("holder", [None, TABLE])
def test_a_destination_is_free_or_its_own(holder: UUID | None) -> None:
    """The name may refer to the table itself."""
    found = ResolvedName(NAMESPACE, holder, None if holder is None else "table", LOCATION)
    assert FreeName(NAMESPACE, "Bills", "bills") == decide_destination(found, TABLE, ORDERS, BILLS, "bills")


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (None, NoSuchNamespace, "Namespace does not exist: Paid"),
        (
            ResolvedName(NAMESPACE, OTHER, "table", LOCATION),
            AlreadyExists,
            "Cannot rename Sales.Orders to Paid.Bills. Table already exists",
        ),
        (ResolvedName(NAMESPACE, OTHER, "view", LOCATION), AlreadyExists, "Cannot rename Sales.Orders to Paid.Bills. View already exists"),
    ],
)
def test_a_destination_that_is_taken_is_refused(found: ResolvedName | None, error: type[CatalogError], message: str) -> None:
    """By a table or a view. The namespace must exist."""
    with pytest.raises(CatalogError) as refusal:
        decide_destination(found, TABLE, ORDERS, BILLS, "bills")
    assert (error, message) == (type(refusal.value), refusal.value.message)
