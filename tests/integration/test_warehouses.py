"""Warehouses: unique names, and the cost of many warehouses."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from uuid_utils.compat import uuid4

from icecore.access import backends
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock, try_lock
from icecore.database.connections import Connection
from icecore.domain.errors import AlreadyExists, BadRequest, NoSuchWarehouse, StorageProfileOverlap
from icecore.domain.warehouse import WarehouseState
from icecore.projections import warehouses
from icecore.storage.json_fields import JSON_BYTES_MAX
from icecore.storage.profiles import StorageProfile, parse_storage_profile
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.shared_server import SharedCatalog


def test_a_name_that_is_taken_is_refused(shared_catalog: SharedCatalog, tmp_path: Path) -> None:
    """Case-insensitively, at any location."""
    name = f"taken-{uuid4().hex[:12]}"
    first, second = (CreateWarehouse(each, {"type": "local", "directory": str(tmp_path / each)}) for each in (name, name.upper()))
    response = shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), first))
    assert 201 == response.status
    with pytest.raises(AlreadyExists, match="Warehouse already exists"):
        shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), second))


@pytest.mark.parametrize("field", ["assume-role-arn", "region", "aws-kms-key-arn"])
async def test_a_large_profile_is_refused(catalog: Application, field: str) -> None:
    """Listings and later creations read it again."""
    fields = {"type": "s3", "bucket": "lake", "region": "mars-1"}
    room = JSON_BYTES_MAX - 2_000
    assert 201 == (await _create(catalog, "most", fields | {field: "x" * room})).status
    with pytest.raises(BadRequest, match="Invalid storage-profile: longer than 65536 bytes"):
        await _create(catalog, "more", fields | {field: "x" * JSON_BYTES_MAX})


async def test_a_request_without_a_warehouse_reads_two_warehouses(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two it is known that a request without a name is ambiguous."""
    for number in range(4):
        await _create(catalog, f"lake{number}", {"type": "s3", "bucket": f"lake{number}", "region": "mars-1"})
    read, state = [], warehouses._state

    def counting(row: tuple[Any, ...]) -> WarehouseState:
        read.append(row)
        return state(row)

    monkeypatch.setattr(warehouses, "_state", counting)
    with pytest.raises(BadRequest, match="names no warehouse"):
        await resolve_warehouse(catalog.backends, PROJECT_ID, None)
    assert 2 == len(read)


async def test_no_more_credentials_are_known_than_have_room(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing reads all of them, if necessary each time."""
    catalog.commands.skip_storage_validation = True
    monkeypatch.setattr(backends, "CREDENTIALS_CACHED_BYTES_MAX", 70_000)
    known = backends.Backends(catalog.backends.connections, catalog.backends._stores, catalog.backends._secrets)
    key = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "id", "aws-secret-access-key": "k" * 30_000}
    for number in range(4):
        command = CreateWarehouse(f"lake{number}", {"type": "s3", "bucket": f"lake{number}", "region": "mars-1"}, key)
        await create_warehouse(catalog.commands, context("createWarehouse"), command)
    async with catalog.backends.connection() as connection:
        refs = [state.secret_ref for state in await warehouses.read_all(connection, PROJECT_ID) if state.secret_ref is not None]
    assert 4 == len(refs)
    for ref in [*refs, *refs]:
        assert "access-key" == (await known.credential(PROJECT_ID, ref)).credential_type
    assert set(refs[2:]) == set(known._credentials)


async def test_other_profiles_are_parsed_and_compared_in_a_thread(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be many with a hundred locations each. Those that cannot share the storage are not read: they may be thousands."""
    here, there = ({"type": "s3", "region": "mars-1", "endpoint": f"http://127.0.0.1:{port}"} for port in (9, 10))
    allowing = {"allowed-locations": ["s3://two-files/x"]}
    others = {"elsewhere": there, "two": here, "three": here | allowing | {"key-prefix": "x"}, "four": here}
    for name, profile in others.items():
        await _create(catalog, name, profile | {"bucket": name} | ({"key-prefix": "a"} if name == "two" else {}))
    await _create(catalog, "amazon", {"type": "s3", "bucket": "amazon", "region": "mars-1"})
    threads: dict[str, list[threading.Thread]] = {}

    def noting(json: Any) -> StorageProfile:
        threads.setdefault(json.get("bucket", "of the demo"), []).append(threading.current_thread())
        return parse_storage_profile(json)

    monkeypatch.setattr("icecore.commands.warehouses.shared_storage.parse_storage_profile", noting)
    await _create(catalog, "two-b", here | {"bucket": "two", "key-prefix": "b"})
    assert {"elsewhere", "two", "three"} == threads.keys()
    assert threading.main_thread() not in threads["elsewhere"]
    threads.clear()
    await _create(catalog, "folder", {"type": "local", "directory": str(tmp_path / "two")})
    assert {"of the demo"} == threads.keys()
    with pytest.raises(StorageProfileOverlap, match="overlaps s3://two-files/x of the warehouse three"):
        await _create(catalog, "five", here | {"bucket": "two-files"})


async def test_many_creations_at_once_ask_postgres_one_after_another(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling for the lock takes a connection each time, which others wait for."""
    asked = 0

    async def counting(connection: Connection, lock: AdvisoryLock) -> bool:
        nonlocal asked
        asked += 1
        return await try_lock(connection, lock)

    monkeypatch.setattr("icecore.commands.warehouses.shared_storage.try_lock", counting)
    profiles = [{"type": "s3", "bucket": f"lake{number}", "region": "mars-1"} for number in range(20)]
    responses = await asyncio.gather(*(_create(catalog, each["bucket"], each) for each in profiles))
    assert {201} == {response.status for response in responses}
    assert 20 == asked


async def _create(catalog: Application, name: str, profile: dict[str, Any]) -> CommandResponse:
    """Creates a warehouse on a store that does not exist."""
    catalog.commands.skip_storage_validation = True
    return await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse(name, profile))


async def test_the_only_one_need_not_be_named_while_it_is(catalog: Application, tmp_path: Path) -> None:
    """That there is only one is not cached."""
    demo = await resolve_warehouse(catalog.backends, PROJECT_ID, None)
    assert demo == await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    command = CreateWarehouse("lake", {"type": "local", "directory": str(tmp_path / "lake")})
    await create_warehouse(catalog.commands, context("createWarehouse"), command)
    with pytest.raises(BadRequest, match="names no warehouse"):
        await resolve_warehouse(catalog.backends, PROJECT_ID, None)


async def test_one_that_is_called_like_another_s_id_takes_nothing_from_it(catalog: Application, tmp_path: Path) -> None:
    """Clients use the id that config returns."""
    demo = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    command = CreateWarehouse(str(demo.id), {"type": "local", "directory": str(tmp_path / "lake")})
    await create_warehouse(catalog.commands, context("createWarehouse"), command)
    assert demo == await resolve_warehouse(catalog.backends, PROJECT_ID, str(demo.id))


async def test_a_reference_that_cannot_be_meant_is_refused_in_its_own_words(catalog: Application) -> None:
    """Without a name, and at a time before the warehouse existed."""
    with pytest.raises(BadRequest, match="Invalid warehouse '@5': must be a name or an id"):
        await resolve_warehouse(catalog.backends, PROJECT_ID, "@5")
    for point in ("0", "2020-01-01T00:00:00Z"):
        with pytest.raises(NoSuchWarehouse, match=f"Warehouse did not exist at {point}: demo"):
            await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{point}")
