"""Creating an object in a namespace that another process drops before the append is refused, and so is dropping a namespace that is filled
meanwhile.
"""

from functools import partial

import pytest

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.rename_table import rename_table
from icecore.commands.views.create_view import create_view
from icecore.commands.views.rename_view import rename_view
from icecore.domain.commands import CreateNamespace, CreateTable, CreateView, DropNamespace, RenameTable, RenameView
from icecore.domain.errors import NamespaceNotEmpty, NoSuchNamespace
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections.verify import verify
from tests.fixtures.catalog import context
from tests.fixtures.rest_client import SCHEMA, view_version
from tests.reliability.test_recorded_without_events import FIRST, VIEW, Command, Processes, processes, run

__all__ = ["processes"]

GOING = NamespaceIdentifier(("going",))
THERE = TabularIdentifier(GOING, "x")
BELOW = NamespaceIdentifier(("going", "below"))

COMING: dict[str, Command] = {
    "createNamespace": partial(create_namespace, command=CreateNamespace(BELOW, {})),
    "createTable": partial(create_table, command=CreateTable(GOING, "x", None, SCHEMA, None, None, {}, stage_create=False)),
    "createView": partial(create_view, command=CreateView(GOING, "x", None, SCHEMA, view_version("select 1"), {})),
    "renameTable": partial(rename_table, command=RenameTable(FIRST, THERE)),
    "renameView": partial(rename_view, command=RenameView(VIEW, THERE)),
}


@pytest.fixture
async def begun(processes: Processes) -> Processes:
    """The namespace to be dropped."""
    await create_namespace(processes.asked.commands, context("createNamespace"), processes.warehouse, CreateNamespace(GOING, {}))
    return processes


@pytest.mark.parametrize("operation", COMING)
async def test_nothing_comes_into_a_namespace_that_is_gone(begun: Processes, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """The name was free when the command checked it."""
    with pytest.raises(NoSuchNamespace):
        await run(begun, monkeypatch, COMING[operation], partial(drop_namespace, command=DropNamespace(GOING)))
    assert (await verify(begun.asked.dsn)).ok


@pytest.mark.parametrize("operation", COMING)
async def test_no_namespace_is_dropped_around_what_came_in(begun: Processes, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """The namespace was empty when the drop checked it."""
    with pytest.raises(NamespaceNotEmpty):
        await run(begun, monkeypatch, partial(drop_namespace, command=DropNamespace(GOING)), COMING[operation])
    assert (await verify(begun.asked.dsn)).ok
