"""If both the name and the location are taken, the error is about the name, because clients depend on it for `IF NOT EXISTS`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from uuid_utils.compat import uuid7

from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.register_table import register_table
from icecore.commands.tables.rename_table import rename_table
from icecore.commands.tables.unregister_table import unregister_table
from icecore.commands.tabulars.names_and_locations import NewName
from icecore.commands.views.create_view import create_view
from icecore.commands.views.register_view import register_view
from icecore.commands.views.rename_view import rename_view
from icecore.compose import Application
from icecore.database.connections import Connection
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import (
    CommitTable,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    RegisterTable,
    RegisterView,
    RenameTable,
    RenameView,
    UnregisterTable,
)
from icecore.domain.errors import AlreadyExists, BadRequest, CatalogError, CommitFailed, NoSuchNamespace
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.names import ResolvedName
from icecore.projections.verify import verify
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.rest_client import view_version
from tests.integration.test_large_tables import demo
from tests.integration.test_purge_job import NAMESPACE, SCHEMA, named, staged_updates

Command = Callable[[Application, Warehouse, str, Path], Awaitable[Any]]


@pytest.fixture
async def catalog(database: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with opened_catalog(database, tmp_path / "warehouse") as opened:
        await create_namespace(opened.commands, context("createNamespace"), await demo(opened), CreateNamespace(NAMESPACE, {}))
        yield opened


async def create(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = CreateTable(NAMESPACE, name, f"file://{folder}", SCHEMA, None, None, {}, False)
    await create_table(catalog.commands, context("createTable"), warehouse, command)


async def end_staged(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = CommitTable(named(name), [{"type": "assert-create"}], staged_updates(folder))
    await commit_table(catalog.commands, context("updateTable"), warehouse, command)


async def create_a_view(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = CreateView(NAMESPACE, name, f"file://{folder}", SCHEMA, view_version("select 1"), {})
    await create_view(catalog.commands, context("createView"), warehouse, command)


async def register(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = RegisterTable(NAMESPACE, name, f"file://{folder}/x.metadata.json", overwrite=False)
    await register_table(catalog.commands, context("registerTable"), warehouse, command)


async def register_a_view(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = RegisterView(NAMESPACE, name, f"file://{folder}/x.metadata.json")
    await register_view(catalog.commands, context("registerView"), warehouse, command)


COMMANDS = [
    (create, AlreadyExists),
    (end_staged, CommitFailed),
    (create_a_view, AlreadyExists),
    (register, AlreadyExists),
    (register_a_view, AlreadyExists),
]


@pytest.mark.parametrize(("command", "error"), COMMANDS, ids=[command.__name__ for command, _ in COMMANDS])
@pytest.mark.parametrize("same_name", [True, False])
async def test_losing_both_is_reported_as_the_name(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, error: type[CatalogError], same_name: bool
) -> None:
    """Another request takes both after the name was checked and before the location is. The location alone results in 400."""
    folder, warehouse, look = tmp_path / "warehouse" / "here", await demo(catalog), NewName.find

    async def found_and_lost(name: NewName, connection: Connection) -> ResolvedName | None:
        monkeypatch.setattr(NewName, "find", look)
        found = await look(name, connection)
        await create(catalog, warehouse, "t" if same_name else "rival", folder)
        return found

    monkeypatch.setattr(NewName, "find", found_and_lost)
    with pytest.raises(error if same_name else BadRequest, match="already exists" if same_name else "Location is already taken"):
        await command(catalog, warehouse, "t", folder)


async def test_a_location_lost_at_the_append_is_refused_again_for_the_key(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same refusal is repeated, although the location is free by then."""
    folder, warehouse, committer = tmp_path / "warehouse" / "here", await demo(catalog), catalog.commands.committer
    submit_batch = committer.submit_batch

    async def after_the_rival(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        monkeypatch.setattr(committer, "submit_batch", submit_batch)
        await create(catalog, warehouse, "rival", folder)
        return await submit_batch(append_requests)

    monkeypatch.setattr(committer, "submit_batch", after_the_rival)
    asked = context("createTable", key=uuid7(), request_hash=b"x" * 32)
    command = CreateTable(NAMESPACE, "t", f"file://{folder}", SCHEMA, None, None, {}, False)
    with pytest.raises(BadRequest, match="Location is already taken"):
        await create_table(catalog.commands, asked, warehouse, command)
    await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(named("rival"), purge_requested=False))
    with pytest.raises(BadRequest, match="Location is already taken"):
        await create_table(catalog.commands, asked, warehouse, command)
    await create_table(catalog.commands, context("createTable"), warehouse, command)


GONE = NamespaceIdentifier(("gone",))
Enter = Callable[[Application, Warehouse, str], Awaitable[None]]


async def enter_by_creation(catalog: Application, warehouse: Warehouse, location: str) -> None:
    await create_table(
        catalog.commands, context("createTable"), warehouse, CreateTable(GONE, "t", None, SCHEMA, None, None, {}, stage_create=False)
    )


async def enter_by_the_end_of_a_staged_creation(catalog: Application, warehouse: Warehouse, location: str) -> None:
    folder = Path(warehouse.profile.base.text.removeprefix("file://")) / "staged"
    command = CommitTable(TabularIdentifier(GONE, "t"), [{"type": "assert-create"}], staged_updates(folder))
    await commit_table(catalog.commands, context("updateTable"), warehouse, command)


async def enter_by_registration(catalog: Application, warehouse: Warehouse, location: str) -> None:
    await register_table(catalog.commands, context("registerTable"), warehouse, RegisterTable(GONE, "t", location, overwrite=False))


async def enter_by_renaming(catalog: Application, warehouse: Warehouse, location: str) -> None:
    await rename_table(catalog.commands, context("renameTable"), warehouse, RenameTable(named("t"), TabularIdentifier(GONE, "t")))


async def enter_by_renaming_a_view(catalog: Application, warehouse: Warehouse, location: str) -> None:
    await rename_view(catalog.commands, context("renameView"), warehouse, RenameView(named("v"), TabularIdentifier(GONE, "v")))


async def enter_by_creating_a_view(catalog: Application, warehouse: Warehouse, location: str) -> None:
    command = CreateView(GONE, "v", None, SCHEMA, view_version("select 1"), {})
    await create_view(catalog.commands, context("createView"), warehouse, command)


@pytest.mark.parametrize(
    "enter",
    [
        enter_by_creation,
        enter_by_the_end_of_a_staged_creation,
        enter_by_registration,
        enter_by_renaming,
        enter_by_renaming_a_view,
        enter_by_creating_a_view,
    ],
)
async def test_nothing_comes_into_a_namespace_that_is_dropped_meanwhile(
    catalog: Application, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enter: Enter
) -> None:
    """It is dropped after it was resolved and before the append."""
    warehouse, committer = await demo(catalog), catalog.commands.committer
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(GONE, {}))
    await create(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    await create(catalog, warehouse, "u", tmp_path / "warehouse" / "u")
    await create_a_view(catalog, warehouse, "v", tmp_path / "warehouse" / "v")
    unregistered = await unregister_table(catalog.commands, context("unregisterTable"), warehouse, UnregisterTable(named("u")))
    location = orjson.loads(joined(unregistered.body or b""))["metadata-location"]
    submit_batch = committer.submit_batch

    async def after_the_drop(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        monkeypatch.setattr(committer, "submit_batch", submit_batch)
        await drop_namespace(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(GONE))
        return await submit_batch(append_requests)

    monkeypatch.setattr(committer, "submit_batch", after_the_drop)
    with pytest.raises(NoSuchNamespace):
        await enter(catalog, warehouse, location)
    report = await verify(database)
    assert report.ok, str(report)
