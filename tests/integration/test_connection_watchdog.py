"""The watchdog of connections ends with its pool, and takes nothing for what it is not."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import AsyncConnection

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution.committer import Committer
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.database.advisory_locks import AdvisoryLock
from icecore.database.connections import ConnectionPool
from icecore.database.named_sql import named_sql
from icecore.domain.commands import CreateNamespace
from icecore.domain.identifiers import NamespaceIdentifier
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.integration.test_append import namespace


def watches() -> int:
    return sum(task.get_name() == "connection-watchdog" for task in asyncio.all_tasks())


async def test_a_catalog_that_is_closed_leaves_no_watch_behind(database: str, tmp_path: Path) -> None:
    """Neither of reads nor of commits, which were being watched."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier(("a",)), {}))
        assert 2 == watches()
    await asyncio.sleep(0)
    assert 0 == watches()


async def test_an_append_behind_a_pooler_is_not_cancelled(database: str) -> None:
    """Its session is unknown. The address is that of Postgres here, so that the process ids of a pooler are those of sessions."""
    with psycopg.connect(database, autocommit=True) as connection:
        # A sequence counts rolled-back attempts too.
        connection.execute("create sequence public.attempts")
        connection.execute(
            "create function public.slow() returns trigger language plpgsql as "
            "$$ begin perform nextval('public.attempts'), pg_sleep(2); return new; end $$"
        )
        connection.execute("create trigger slow before insert on icecore.events for each row execute function public.slow()")
        for transaction_pooled, attempts in ((True, 1), (False, 3)):
            committer = Committer(database, transaction_pooled=transaction_pooled)
            committer.start()
            assert "appended" == (await committer.submit(namespace(f"pooled_{transaction_pooled}")[0])).outcome
            await committer.close()
            assert (attempts,) == connection.execute("select last_value from public.attempts").fetchone()


async def test_a_frozen_session_behind_a_pooler_is_not_closed(database: str) -> None:
    """Another session of the pool may have its process id."""
    pool = ConnectionPool(database, 1, application_name="icecore-test", transaction_pooled=True)
    async with pool.connection() as connection:
        process_id = connection.info.backend_pid
        os.kill(process_id, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(2.5, os.kill, process_id, signal.SIGCONT)
        try:
            assert (1,) == await (await connection.execute("select 1")).fetchone()
        finally:
            os.kill(process_id, signal.SIGCONT)
    await pool.close()


async def test_reads_by_time_are_not_taken_for_the_append_with_the_lock(database: str, new_database: Callable[[], str]) -> None:
    """Readers by time share the append lock, and an append waits for them. The same holds for another catalog's append in the same
    Postgres.
    """
    async with (
        await AsyncConnection.connect(database) as one,
        await AsyncConnection.connect(database) as other,
        await AsyncConnection.connect(database, autocommit=True) as append,
        await AsyncConnection.connect(database, autocommit=True) as probe,
        await AsyncConnection.connect(new_database()) as elsewhere,
    ):
        sessions = named_sql("icecore.database", "connection_watchdog.sql")["sessions"]

        async def seen() -> list[tuple[bool, str | None]]:
            values = {"process_ids": [append.info.backend_pid], "append_lock": AdvisoryLock.APPEND}
            rows = await (await probe.execute(sessions, values)).fetchall()
            return [(waits, holder) for _, _, _, waits, holder, _ in rows]

        await elsewhere.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND])
        for connection in (one, other):
            await connection.execute("select pg_advisory_xact_lock_shared(%s)", [AdvisoryLock.APPEND])
        assert [(False, None)] == await seen()
        waiting = asyncio.create_task(append.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND]))
        while [(True, None)] != await seen():
            assert not waiting.done()
        await one.commit()
        await other.commit()
        await waiting
