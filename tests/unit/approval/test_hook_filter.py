"""The changes that an approval hook reviews: operations with wildcards, warehouses by name or id, namespaces with nested ones."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from icecore.approval.contract import ObjectChange, ProposedChange
from icecore.approval.hooks import HookFilter

WAREHOUSE_ID = UUID(int=7)


async def nothing_declared(_: tuple[str, ...]) -> Sequence[dict[str, str]]:
    return []


def matches(
    hook_filter: HookFilter, *, before: tuple[str, ...] | None = ("a", "b", "t"), after: tuple[str, ...] | None = ("a", "b", "t")
) -> bool:
    """Whether the hook reviews a commit to `demo`'s table `a.b.t`."""
    changed = ObjectChange("table", UUID(int=1), None, before, after, None, None, ("table.committed.v1",))
    change = ProposedChange("updateTable", "anonymous", "r", WAREHOUSE_ID, "Demo", (changed,), None, nothing_declared)
    return hook_filter.matches(change)


def test_an_empty_filter_lets_everything_through() -> None:
    assert matches(HookFilter())


@pytest.mark.parametrize(
    ("operations", "asked"), [(["updateTable"], True), (["create*", "*Table"], True), (["createTable"], False), (["replace*"], False)]
)
def test_operations(operations: list[str], asked: bool) -> None:
    assert asked == matches(HookFilter.parse(operations, [], []))


@pytest.mark.parametrize(
    ("warehouses", "asked"), [(["demo"], True), (["other", "DEMO"], True), ([str(WAREHOUSE_ID)], True), (["other"], False), (["de"], False)]
)
def test_warehouses(warehouses: list[str], asked: bool) -> None:
    assert asked == matches(HookFilter.parse([], warehouses, []))


@pytest.mark.parametrize(
    ("namespaces", "asked"), [(["a.b"], True), (["x", "A"], True), (["a.b.t"], False), (["a.bc"], False), (["b"], False)]
)
def test_namespaces(namespaces: list[str], asked: bool) -> None:
    assert asked == matches(HookFilter.parse([], [], namespaces))


def test_a_namespace_that_begins_alike_is_another() -> None:
    """Only whole levels match."""
    hook_filter = HookFilter.parse([], [], ["a.b"])
    assert matches(hook_filter, before=("a", "b", "c", "t"), after=None)
    assert not matches(hook_filter, before=("a", "bc", "t"), after=("a", "bc", "d", "t"))


def test_a_rename_is_of_both_its_namespaces() -> None:
    hook_filter = HookFilter.parse([], [], ["x"])
    assert matches(hook_filter, after=("x", "t"))
    assert matches(hook_filter, before=("x", "t"))
    assert not matches(hook_filter)


def test_all_members_must_match() -> None:
    assert matches(HookFilter.parse(["updateTable"], ["demo"], ["a"]))
    for other in (["dropTable"], ["demo"], ["a"]), (["updateTable"], ["other"], ["a"]), (["updateTable"], ["demo"], ["x"]):
        assert not matches(HookFilter.parse(*other))
