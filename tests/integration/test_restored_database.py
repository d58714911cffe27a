"""The database of a running server is restored to an earlier point: no response contains anything of the lost part of the log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application
from icecore.database.connections import ConnectionPool
from icecore.domain.commands import CreateNamespace
from icecore.domain.errors import NoSuchWarehouse
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.log.listener import LogListener
from icecore.projections.verify import verify
from icecore.publishers.references import PathCache
from icecore.publishers.shared_batches import SharedBatches
from icecore.queries.load_namespace import load_namespace
from icecore.security.secrets import SecretUnreadable
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestClient, set_properties

LEVELS = ("a",)
WAITED_SECONDS_MAX = 20.0


@pytest.fixture
def backup(database: str, admin_dsn: str, tmp_path: Path) -> Iterator[str]:
    """The name of a copy of the test's database with the tables `a.t` and `a.u`, of which the latter was dropped later."""
    name = str(conninfo_to_dict(database)["dbname"])
    with served_catalog(database, tmp_path / "warehouse", jobs=False) as server:
        client = RestClient(server.url)
        client.create_namespace(*LEVELS)
        client.create_table(LEVELS, "t")
        client.create_table(LEVELS, "u")
        client.close()
    copy = f"{name}_backup"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        create = sql.SQL("create database {} template {} strategy file_copy")
        connection.execute(create.format(sql.Identifier(copy), sql.Identifier(name)))
        yield copy
        for left in (copy, f"{name}_lost"):
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(left)))


def restore(admin_dsn: str, name: str, copy: str) -> None:
    """The copy replaces the database. All connections are closed, as in a restart of Postgres."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} with allow_connections false").format(sql.Identifier(name)))
        connection.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", (name,))
        rename = sql.SQL("alter database {} rename to {}")
        connection.execute(rename.format(sql.Identifier(name), sql.Identifier(f"{name}_lost")))
        connection.execute(rename.format(sql.Identifier(copy), sql.Identifier(name)))


@pytest.mark.parametrize("grown", [False, True], ids=["behind", "grown again with other events"])
async def test_a_restored_database_is_answered_as_it_is(database: str, admin_dsn: str, backup: str, tmp_path: Path, grown: bool) -> None:
    """Cached data of the lost part is removed, even if the log has as many events again. Commits are decided on the restored state."""
    name = str(conninfo_to_dict(database)["dbname"])
    with served_catalog(database, tmp_path / "warehouse", jobs=False) as server:
        client = RestClient(server.url)
        client.commit(LEVELS, "t", set_properties(lost="yes"))
        client.drop_table(LEVELS, "u")
        for _ in range(3):  # the later ones from the cache
            assert "yes" == client.load_table(LEVELS, "t").json["metadata"]["properties"]["lost"]
            assert ["t"] == client.table_names(*LEVELS)
        assert 404 == client.load_table(LEVELS, "u").status
        if grown:
            restored_dsn = psycopg.conninfo.make_conninfo(database, dbname=backup)
            with served_catalog(restored_dsn, tmp_path / "warehouse", jobs=False) as elsewhere:
                other = RestClient(elsewhere.url)
                for number in range(2):
                    other.create_namespace(f"other{number}")
                other.close()
        restore(admin_dsn, name, backup)
        loaded = client.load_table(LEVELS, "t")
        assert (200, None) == (loaded.status, loaded.json["metadata"]["properties"].get("lost"))
        assert ["t", "u"] == sorted(client.table_names(*LEVELS))
        assert 200 == client.load_table(LEVELS, "u").status
        assert 200 == client.commit(LEVELS, "t", set_properties(found="yes")).status
        properties = client.load_table(LEVELS, "t").json["metadata"]["properties"]
        assert ("yes", None) == (properties.get("found"), properties.get("lost"))
        client.close()
    assert [] == (await verify(database)).differences


async def test_who_waits_for_events_waits_for_those_of_the_restored_log(database: str, admin_dsn: str, backup: str, tmp_path: Path) -> None:
    """A process's known head may be beyond that of the restored log. Waiting requests neither wake for missing events nor miss new ones."""
    name = str(conninfo_to_dict(database)["dbname"])
    with psycopg.connect(make_conninfo(database, dbname=backup)) as connection:
        row = connection.execute("select max(notification_id) from icecore.events").fetchone()
    assert row is not None
    (end,) = row
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        for levels in ("lost1", "lost2"):
            await create_namespace_named(catalog, levels)
    listener = LogListener(database)
    assert await listener.after(end + 1, WAITED_SECONDS_MAX)
    restore(admin_dsn, name, backup)
    async with asyncio.timeout(WAITED_SECONDS_MAX):
        while await listener.after(end, 0):
            await asyncio.sleep(0.05)
    waiting = asyncio.create_task(listener.after(end, WAITED_SECONDS_MAX))
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await create_namespace_named(catalog, "found")
    assert await waiting
    assert not await listener.after(end + 1, 0)
    await listener.close()


async def create_namespace_named(catalog: Application, name: str) -> None:
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier((name,)), {}))


def test_the_command_line_refuses_a_position_beyond_the_end(database: str) -> None:
    """The position after the last is valid. Those beyond belong to another log."""
    first, beyond = (icecore(database, "log", "--from", position) for position in ("1", "2"))
    assert (0, "") == (first.returncode, first.stdout)
    assert 2 == beyond.returncode
    assert "beyond the end of the log (0)" in beyond.stderr


class StateInPlace:
    """The current content of the database, to be restored while connections continue, as with a pooler."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._tables: dict[str, bytes] = {}
        with psycopg.connect(dsn) as connection:
            found = "select relname from pg_class where relnamespace = 'icecore'::regnamespace and relkind = 'r'"
            for (table,) in connection.execute(found).fetchall():
                with connection.cursor().copy(sql.SQL("copy icecore.{} to stdout").format(sql.Identifier(table))) as copied:
                    self._tables[table] = b"".join(bytes(piece) for piece in copied)

    def restore(self) -> None:
        with psycopg.connect(self._dsn) as connection:
            connection.execute("set local session_replication_role = replica")
            for table in self._tables:  # not `truncate`, whose locks may deadlock with those of the server's reads
                connection.execute(sql.SQL("delete from icecore.{}").format(sql.Identifier(table)))
            for table, rows in self._tables.items():
                with connection.cursor().copy(sql.SQL("copy icecore.{} from stdin").format(sql.Identifier(table))) as copied:
                    copied.write(rows)


@pytest.fixture
def client(catalog_server: CatalogServer) -> Iterator[RestClient]:
    """A client of a server with the tables `a.t` and `a.other`."""
    client = RestClient(catalog_server.url)
    client.create_namespace(*LEVELS)
    for name in ("t", "other"):
        assert 200 == client.create_table(LEVELS, name).status
    yield client
    client.close()


def test_an_etag_of_a_lost_version_is_not_that_of_another(catalog_server: CatalogServer, client: RestClient) -> None:
    """The same version number in the restored log has other content."""
    before = StateInPlace(catalog_server.dsn)
    lost = client.commit(LEVELS, "t", set_properties(lost="yes")).headers["etag"]
    assert lost == client.load_table(LEVELS, "t").headers["etag"]
    before.restore()
    found = client.commit(LEVELS, "t", set_properties(found="yes")).headers["etag"]
    loaded = client.load_table(LEVELS, "t", if_none_match=lost)
    assert (200, found) == (loaded.status, loaded.headers["etag"])
    assert 304 == client.load_table(LEVELS, "t", if_none_match=found).status


def test_a_response_kept_since_the_log_was_last_compared_is_not_given_again(catalog_server: CatalogServer, client: RestClient) -> None:
    """The restored log contains the last confirmed head, and connections continue."""
    for _ in range(3):
        client.load_table(LEVELS, "other")
    before = StateInPlace(catalog_server.dsn)
    client.commit(LEVELS, "t", set_properties(lost="yes"))
    assert "yes" == client.load_table(LEVELS, "t").json["metadata"]["properties"]["lost"]
    before.restore()
    for _ in range(3):
        assert "lost" not in client.load_table(LEVELS, "t").json["metadata"]["properties"]


@pytest.mark.parametrize("looked", [True, False], ids=["the served head was compared", "it was not"])
@pytest.mark.parametrize("more", [0, 1, 3], ids=["as many events", "one more", "three more"])
async def test_a_restored_log_that_grew_past_the_known_head_is_detected(
    catalog_server: CatalogServer, client: RestClient, tmp_path: Path, looked: bool, more: int
) -> None:
    """Restored while connections continue, with other events at the same positions before the next request."""
    for name in ("t", "other"):
        client.load_table(LEVELS, name)
    before = StateInPlace(catalog_server.dsn)
    client.commit(LEVELS, "t", set_properties(lost="yes"))
    client.drop_table(LEVELS, "other")
    for _ in range(3 if looked else 1):
        assert "yes" == client.load_table(LEVELS, "t").json["metadata"]["properties"]["lost"]
        assert ["t"] == client.table_names(*LEVELS)
    before.restore()
    async with opened_catalog(catalog_server.dsn, tmp_path / "warehouse") as elsewhere:
        for number in range(2 + more):
            await create_namespace_named(elsewhere, f"found{number}")
    assert ["other", "t"] == sorted(client.table_names(*LEVELS))
    assert "lost" not in client.load_table(LEVELS, "t").json["metadata"]["properties"]
    assert 200 == client.load_table(LEVELS, "other").status
    assert 200 == client.commit(LEVELS, "t", set_properties(found="yes")).status
    assert "lost" not in client.load_table(LEVELS, "t").json["metadata"]["properties"]
    assert [] == (await verify(catalog_server.dsn)).differences


@pytest.mark.parametrize("more", [None, 0, 3], ids=["behind", "as many events", "three more"])
async def test_no_change_is_refused_for_what_was_lost(
    catalog_server: CatalogServer, client: RestClient, tmp_path: Path, more: int | None
) -> None:
    """Names, drops and versions of the lost part do not matter."""
    schema = {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "y", "required": False, "type": "long"}]}
    change = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    unchanged = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
    before = StateInPlace(catalog_server.dsn)
    assert 200 == client.commit(LEVELS, "t", *change, requirements=unchanged).status
    assert 409 == client.commit(LEVELS, "t", *change, requirements=unchanged).status
    assert 200 == client.create_table(LEVELS, "lost").status
    assert 200 == client.commit(LEVELS, "lost", set_properties(a="b")).status
    assert 200 == client.create_namespace("lost").status
    client.drop_table(LEVELS, "other")
    assert 404 == client.commit(LEVELS, "other", set_properties(a="b")).status
    before.restore()
    if more is not None:
        async with opened_catalog(catalog_server.dsn, tmp_path / "warehouse") as elsewhere:
            for number in range(4 + more):
                await create_namespace_named(elsewhere, f"found{number}")
    assert 200 == client.commit(LEVELS, "other", set_properties(a="b")).status
    assert 200 == client.commit(LEVELS, "t", *change, requirements=unchanged).status
    assert 200 == client.create_namespace("lost").status
    lost = client.commit(LEVELS, "lost", set_properties(a="b"))
    assert 404 == lost.status, lost.message
    assert 200 == client.create_table(LEVELS, "lost").status
    assert 200 == client.commit(LEVELS, "lost", set_properties(a="b")).status
    assert [] == (await verify(catalog_server.dsn)).differences


async def test_a_lost_warehouse_is_not_found_any_more(catalog: Application, tmp_path: Path) -> None:
    """It is not retried until the deadline, and its cache entry is removed. Connections continue."""
    before = StateInPlace(catalog.dsn)
    (tmp_path / "late").mkdir()
    command = CreateWarehouse("late", {"type": "local", "directory": str(tmp_path / "late")})
    await create_warehouse(catalog.commands, context("createWarehouse"), command)
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "late")
    before.restore()
    with pytest.raises(NoSuchWarehouse):
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier(("n",)), {}))
    with pytest.raises(NoSuchWarehouse):
        await resolve_warehouse(catalog.backends, PROJECT_ID, "late")


async def test_a_broken_connection_empties_the_memory(catalog: Application) -> None:
    """The next connection may be to another log, whatever its head. Responses, warehouses and credentials are read again."""
    profile = {"type": "s3", "bucket": "lake", "region": "mars-1", "endpoint": "http://127.0.0.1:9", "flavor": "s3-compat"}
    key = {"type": "s3", "credential-type": "access-key", "access-key-id": "id", "secret-access-key": "key"}
    catalog.commands.skip_storage_validation = True
    await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse("lake", profile, key), needs_review=False)
    secret_ref = (await resolve_warehouse(catalog.backends, PROJECT_ID, "lake")).secret_ref
    assert secret_ref is not None
    await catalog.backends.credential(PROJECT_ID, secret_ref)
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    await create_namespace_named(catalog, "n")
    for _ in range(2):
        await load_namespace(catalog.queries, context("loadNamespaceMetadata"), warehouse, NamespaceIdentifier(("n",)))
    assert catalog.queries.cache.metrics.bytes_held > 0
    async with await psycopg.AsyncConnection.connect(catalog.dsn, autocommit=True) as ender:
        others = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        await ender.execute("delete from icecore.secrets")
        assert "access-key" == (await catalog.backends.credential(PROJECT_ID, secret_ref)).credential_type
        await ender.execute(f"select pg_terminate_backend(pid, 5000) {others}")
    async with catalog.backends.connection():
        pass
    assert 0 == catalog.queries.cache.metrics.bytes_held
    with pytest.raises(SecretUnreadable):
        await catalog.backends.credential(PROJECT_ID, secret_ref)


async def test_followers_are_not_given_an_event_that_was_lost(catalog: Application) -> None:
    """Batches are shared only briefly, because another log may have another event at a position."""
    await create_namespace_named(catalog, "before")
    end = await catalog.events.head()
    before = StateInPlace(catalog.dsn)
    await create_namespace_named(catalog, "lost")
    connections = ConnectionPool(catalog.dsn, 1, application_name="icecore-events")
    shared = SharedBatches(connections, PathCache(), events_max=10, bytes_max=1_000_000)
    (lost,) = (await shared.after(end)).enriched
    before.restore()
    async with asyncio.timeout(WAITED_SECONDS_MAX):
        while (await shared.after(end)).enriched:
            await asyncio.sleep(0.05)
    await create_namespace_named(catalog, "found")
    (found,) = (await shared.after(end)).enriched
    assert (lost.event.position, lost.event.event_id) != (found.event.position, found.event.event_id)
    shared.clear()
    assert [found.event.event_id] == [each.event.event_id for each in (await shared.after(end)).enriched]
    await connections.close()
