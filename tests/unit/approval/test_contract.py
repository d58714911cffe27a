"""What hooks see of a change: its names and namespaces."""

from uuid import UUID

import pytest

from icecore.approval.contract import ObjectChange, ObjectKind

Names = tuple[str, ...] | None


@pytest.mark.parametrize(
    ("names", "namespaces", "kind", "before", "after"),
    [
        ([("a", "b", "t")], [("a", "b")], "table", None, ("a", "b", "t")),
        ([("a", "t")], [("a",)], "view", ("a", "t"), None),
        ([("a", "t")], [("a",)], "table", ("a", "t"), ("a", "t")),
        ([("a", "t"), ("a", "u")], [("a",)], "table", ("a", "t"), ("a", "u")),
        ([("b", "t"), ("a", "t")], [("b",), ("a",)], "view", ("b", "t"), ("a", "t")),
        ([("a", "b")], [("a", "b")], "namespace", ("a", "b"), ("a", "b")),
        ([("w",)], [], "warehouse", None, ("w",)),
    ],
    ids=["created", "dropped", "committed", "renamed", "moved", "a namespace", "a warehouse"],
)
def test_a_change_is_of_its_names_and_the_namespaces_around_them(
    names: list[tuple[str, ...]], namespaces: list[tuple[str, ...]], kind: ObjectKind, before: Names, after: Names
) -> None:
    """Each once, the ones before first."""
    change = ObjectChange(kind, UUID(int=1), None, before, after, None, None, ())
    assert (names, namespaces) == (change.names, change.namespaces)
