"""Tables with many parts and a crash of Postgres: lost parts that were written before the append, or closed in the background, are
noticed.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from icecore.commands.execution.preloaded_parts import preload_parts
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables import close_removed_parts
from icecore.commands.tables import register_table as registering
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock
from icecore.database.connections import Connection
from icecore.domain.commands import CreateNamespace
from icecore.domain.errors import ServiceUnavailable
from icecore.embedded_postgres import embedded_postgres
from icecore.migrations.apply import apply_migrations
from icecore.projections.part_tombstones import PartTombstone, close_parts
from icecore.projections.verify import verify
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.postgres import chosen_binaries
from tests.integration.test_large_tables import SNAPSHOTS, TABLE, ask, demo, expire, left_over, loaded, metadata_file, register

WAITS_FOR_APPEND = (
    "select exists (select from pg_locks where locktype = 'advisory' and not granted "
    f"and (classid::bigint << 32 | objid::bigint) = {AdvisoryLock.APPEND:d})"
)


class OwnPostgres:
    """A database on a separate server whose processes may be killed. With the WAL writer paused, asynchronous commits stay in memory until
    another commit is flushed, so that a crash loses them.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._paused = 0

    async def pause_wal_writer(self) -> None:
        self._paused = await self._wal_writer_other_than(0)
        os.kill(self._paused, signal.SIGSTOP)

    async def crash(self) -> None:
        """kill -9 of a backend and of the paused WAL writer. Postgres ends the other processes and recovers from the WAL on disk."""
        with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            os.kill(self._paused, signal.SIGKILL)
        await self._wal_writer_other_than(self._paused)

    async def _wal_writer_other_than(self, former: int) -> int:
        """The process id of the WAL writer, once it exists."""
        async with asyncio.timeout(30):
            while True:
                with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as connection:
                    found = connection.execute("select pid from pg_stat_activity where backend_type = 'walwriter'").fetchone()
                    if found is not None and found[0] != former:
                        return int(found[0])
                await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A superuser's connection to a separate server of this module."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-test-"))
    directory.chmod(0o755)
    with embedded_postgres(directory, binaries=chosen_binaries()) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            # Other commits would flush them.
            connection.execute("alter system set autovacuum = off")
            connection.execute("select pg_reload_conf()")
        yield dsn
    shutil.rmtree(directory)


@pytest.fixture
def own_postgres(own_server: str) -> OwnPostgres:
    with psycopg.connect(own_server, autocommit=True) as connection:
        connection.execute("drop database if exists test with (force)")
        connection.execute("create database test template template0")
    dsn = make_conninfo(own_server, dbname="test")
    asyncio.run(apply_migrations(dsn))
    return OwnPostgres(dsn)


@pytest.fixture
async def catalog(own_postgres: OwnPostgres, tmp_path: Path) -> AsyncIterator[Application]:
    """A catalog without cached states on that database, with the namespace `a`."""
    async with opened_catalog(own_postgres.dsn, tmp_path / "warehouse", cache_bytes_max=0) as opened:
        await create_namespace(opened.commands, context("createNamespace"), await demo(opened), CreateNamespace(TABLE.namespace, {}))
        yield opened


async def snapshots(catalog: Application) -> int:
    return len((await loaded(catalog))["snapshots"])


async def test_a_crash_while_the_append_of_a_large_registration_waits_loses_none_of_its_parts(
    catalog: Application, own_postgres: OwnPostgres, tmp_path: Path
) -> None:
    """The append is repeated on the recovered Postgres. It adopts all parts or none."""
    location = metadata_file(tmp_path)
    await own_postgres.pause_wal_writer()
    with psycopg.connect(own_postgres.dsn) as holder:
        holder.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND])
        registering_now = asyncio.create_task(register(catalog, location))
        async with asyncio.timeout(30):
            while not ask(own_postgres.dsn, WAITS_FOR_APPEND):
                await asyncio.sleep(0.02)
        await own_postgres.crash()
        holder.close()
    await registering_now
    assert SNAPSHOTS == await snapshots(catalog)
    assert [] == (await verify(own_postgres.dsn)).differences
    assert (0, 0, 0) == left_over(own_postgres.dsn)


async def test_parts_that_a_crash_took_while_others_were_written_ahead_are_written_again(
    catalog: Application, own_postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts written before the crash are lost, later ones exist. They are counted before the append."""
    location, uses = metadata_file(tmp_path), 0
    connections = catalog.commands.connection

    @asynccontextmanager
    async def connection_after_a_crash() -> AsyncIterator[Connection]:
        nonlocal uses
        uses += 1
        if uses == 4:
            await own_postgres.crash()
        async with connections() as connection:
            yield connection

    async def stage_through_a_crash(given: Any, *more: Any) -> None:
        await preload_parts(connection_after_a_crash, *more)

    with monkeypatch.context() as patched:
        patched.setattr(registering, "preload_parts", stage_through_a_crash)
        await own_postgres.pause_wal_writer()
        await register(catalog, location)
    assert 4 < uses
    assert SNAPSHOTS == await snapshots(catalog)
    assert (0, 0, 0) == left_over(own_postgres.dsn)
    assert [] == (await verify(own_postgres.dsn)).differences


async def test_a_crash_while_parts_are_closed_does_not_bring_them_back(
    catalog: Application, own_postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tombstone exists until every part it covers is closed on disk."""
    await register(catalog, metadata_file(tmp_path))
    await expire(catalog, list(range(1, SNAPSHOTS)))
    assert 1 == await snapshots(catalog)
    job, crashed = catalog.parts, False

    async def close_some_and_crash(connection: Connection, tombstone: PartTombstone, after: int, limit: int) -> tuple[int, int]:
        nonlocal crashed
        some = await close_parts(connection, tombstone, after, limit)
        if not crashed and some[0] > 0 and tombstone.kind == 4:
            crashed = True
            await own_postgres.crash()
        return some

    monkeypatch.setattr(close_removed_parts, "close_parts", close_some_and_crash)
    await own_postgres.pause_wal_writer()
    # The leader's connection is lost too, which ends the round.
    with suppress(ServiceUnavailable):
        await job.run_once()
    assert crashed
    assert 1 == await snapshots(catalog)
    async with asyncio.timeout(30):
        while left_over(own_postgres.dsn)[2]:
            await job.run_once()
    assert 1 == await snapshots(catalog)
    assert [] == (await verify(own_postgres.dsn)).differences
