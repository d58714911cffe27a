"""Connections to Postgres are all opened in one place, with the same options."""

import ast
import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from icecore.commands.execution.committer import LOCK_TIMEOUT_SECONDS, Committer
from icecore.database import connection_watchdog, connections
from icecore.database.connection import connect
from icecore.database.connections import ConnectionPool
from icecore.domain.errors import ServiceUnavailable
from icecore.log.event_store import LogApplication, LogRecorder, environment
from icecore.log.follow import connect_subscriber
from icecore.projections import rebuild_part
from icecore.publishers.checkpoints import locked
from tests.fixtures.cutting_proxy import CuttingProxy
from tests.servers.postgres import debian_postgres
from tests.tidy.test_layers import BELOW, CHECKOUT, modules


async def shown(connection: psycopg.AsyncConnection, name: str) -> str:
    row = await (await connection.execute("select current_setting(%s)", (name,))).fetchone()
    assert row is not None
    return str(row[0])


async def test_nothing_is_compiled_and_the_options_of_the_address_hold(database: str) -> None:
    """Options in the database URL apply, but cannot turn JIT on."""
    given = make_conninfo(database, options="-c work_mem=7MB -c jit=on")
    async with await connect(given, options="-c lock_timeout=3s") as connection:
        assert ["off", "7MB", "3s"] == [await shown(connection, name) for name in ("jit", "work_mem", "lock_timeout")]
    pool = ConnectionPool(given, 1, application_name="icecore-test")
    async with pool.connection() as connection:
        assert ["off", "7MB"] == [await shown(connection, name) for name in ("jit", "work_mem")]
    await pool.close()


async def test_transactions_see_what_was_committed_before_each_statement_whatever_the_database_asks_for(database: str) -> None:
    """In a higher isolation level, an append would not see the rows of the append it waited for."""
    name = Identifier(str(conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(SQL("alter database {} set default_transaction_isolation = 'repeatable read'").format(name))
    async with await connect(make_conninfo(database, options="-c default_transaction_isolation=serializable")) as connection:
        assert "read committed" == await shown(connection, "transaction_isolation")
        # A pooler may have dropped the options.
        await connection.execute("set default_transaction_isolation = serializable")
        async with connection.transaction():
            assert "read committed" == await shown(connection, "transaction_isolation")
    with LogApplication(env=environment(database)) as application:
        recorder = application.recorder
        assert isinstance(recorder, LogRecorder)
        with recorder.datastore.get_connection() as opened:
            assert {"current_setting": "read committed"} == opened.execute("select current_setting('transaction_isolation')").fetchone()


async def test_the_committer_keeps_its_limits_and_compiles_nothing(database: str) -> None:
    """The session of an append has both."""
    committer = Committer(make_conninfo(database, options="-c work_mem=7MB"))
    connection = await committer._connect()
    assert ["off", "7MB", f"{LOCK_TIMEOUT_SECONDS}s"] == [await shown(connection, name) for name in ("jit", "work_mem", "lock_timeout")]
    await connection.close()


def opened_in(module: Path) -> list[int]:
    """The lines in which a module opens a connection with psycopg."""
    calls = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) in ("AsyncConnection.connect", "psycopg.AsyncConnection.connect")]


def test_every_connection_is_opened_in_one_place() -> None:
    """Otherwise it would have other options."""
    opened = {str(module.relative_to(CHECKOUT)) for folder in BELOW for module in modules(folder) if opened_in(module)}
    assert {"database/connection.py"} == opened


async def use(pool: ConnectionPool, statement: str = "select 1") -> None:
    async with pool.connection() as connection:
        await connection.execute(statement.encode())


async def is_whole(pool: ConnectionPool) -> bool:
    """Whether its one connection is available."""
    async with asyncio.timeout(5):
        await use(pool)
    return pool.in_use == 0


async def test_a_connection_skips_cancelled_requests(database: str) -> None:
    """One waiting task was cancelled after it got the connection, another one while it waited."""
    pool = ConnectionPool(database, 1, application_name="icecore-test")
    async with pool.connection():
        waiting = [asyncio.create_task(use(pool)) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await asyncio.sleep(0.01)
    waiting[1].cancel()
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [asyncio.CancelledError, asyncio.CancelledError, type(None)] == [type(each) for each in outcomes]
    assert await is_whole(pool)
    await pool.close()


async def test_the_room_of_a_connection_that_is_not_opened_is_free_again(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Postgres refuses it, or the waiting task is cancelled."""
    pool = ConnectionPool(database, 1, application_name="icecore-test")

    async def refused(*_: object, **__: object) -> None:
        raise psycopg.OperationalError("no room")

    async def silent(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(connections, "connect", refused)
        with pytest.raises(ServiceUnavailable):
            await use(pool)
        patched.setattr(connections, "connect", silent)
        opening = asyncio.create_task(use(pool))
        await asyncio.sleep(0.01)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    assert await is_whole(pool)
    await pool.close()


async def test_a_connection_on_which_a_statement_was_left_is_not_handed_on(database: str) -> None:
    """Its task was cancelled. The next user would have to wait for the end of the statement or get an error."""
    pool = ConnectionPool(database, 1, application_name="icecore-test")
    async with pool.connection() as connection:
        before = connection.info.backend_pid
    asked = asyncio.create_task(use(pool, "select pg_sleep(60)"))
    await asyncio.sleep(0.2)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert await is_whole(pool)
    async with pool.connection() as connection:
        assert before != connection.info.backend_pid
    await pool.close()


async def test_a_session_that_ended_while_it_was_idle_is_replaced(database: str) -> None:
    """The caches are emptied too."""
    pool, broken = ConnectionPool(database, 1, application_name="icecore-test"), list[bool]()
    pool.on_broken = lambda: broken.append(True)
    async with pool.connection() as connection:
        process_id = connection.info.backend_pid
    async with await connect(database) as other:
        await other.execute("select pg_terminate_backend(%s, 5000)", (process_id,))
    assert await is_whole(pool)
    assert [True] == broken
    async with pool.connection() as connection:
        with suppress(psycopg.Error):
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert [True, True] == broken
    assert await is_whole(pool)
    await pool.close()


async def test_those_who_wait_behind_a_connection_that_cannot_be_opened_do_not_try_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres accepts the connection and does not respond. If each task tried, the last would wait for all of them."""
    monkeypatch.setattr(connections, "CONNECT_SECONDS_MAX", 0.3)

    async def one() -> None:
        async with pool.connection():
            pass

    with socket.create_server(("127.0.0.1", 0)) as never_accepts:
        port = never_accepts.getsockname()[1]
        pool = ConnectionPool(f"host=127.0.0.1 port={port} sslmode=disable", 1, application_name="icecore-test")
        refusals = await asyncio.gather(*(one() for _ in range(3)), return_exceptions=True)
        assert [ServiceUnavailable] * 3 == [type(refusal) for refusal in refusals]
        assert 1 == tries(never_accepts)
    await pool.close()


def tries(server: socket.socket) -> int:
    """The number of connections that wait to be accepted."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


async def test_what_is_sent_while_silence_is_looked_into_is_cut_with_the_rest(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe got no response, so later statements need not wait for another check."""
    looks = 0

    async def responds(watch: connection_watchdog.ConnectionWatchdog) -> bool:
        nonlocal looks
        looks += 1
        second.set()
        await asyncio.wait({asked}, timeout=10)
        return await responses_indeed(watch)

    async def one() -> None:
        async with pool.connection() as connection:
            await connection.execute("select 1")

    async def two() -> None:
        await second.wait()
        async with pool.connection() as connection:
            asked.set_result(None)
            await connection.execute("select 1")

    responses_indeed = connection_watchdog.ConnectionWatchdog._responds
    monkeypatch.setattr(connection_watchdog.ConnectionWatchdog, "_responds", responds)
    second: asyncio.Event = asyncio.Event()
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with CuttingProxy(database).running() as proxy:
        pool = ConnectionPool(proxy.dsn, 2, application_name="icecore-test")
        async with pool.connection() as first, pool.connection() as other:
            await first.execute("select 1")
            await other.execute("select 1")
        proxy.is_frozen = True
        refusals = await asyncio.gather(one(), two(), return_exceptions=True)
        assert [ServiceUnavailable] * 2 == [type(refusal) for refusal in refusals]
        assert 1 == looks
        await pool.close()


@pytest.fixture
def silent_first() -> Iterator[str]:
    """A URL with two hosts: one that accepts connections and says nothing, and a server. No other test has reached either."""
    with socket.create_server(("127.0.0.1", 0)) as silent, debian_postgres() as dsn:
        host, port = (str(conninfo_to_dict(dsn)[name]) for name in ("host", "port"))
        hosts, ports = f"127.0.0.1,{host}", f"{silent.getsockname()[1]},{port}"
        yield make_conninfo(dsn, host=hosts, port=ports, target_session_attrs="read-write")


async def test_the_second_host_is_reached_although_the_first_is_silent(silent_first: str) -> None:
    """As a machine that drops packets. The next connection tries the second host first."""
    pool = ConnectionPool(silent_first, 2, application_name="icecore-test")
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with pool.connection() as connection, asyncio.timeout(1):
        assert loop.time() - began > connections.CONNECT_SECONDS_MAX - 0.1
        assert "icecore-test" == await shown(connection, "application_name")
        async with pool.connection() as second:
            assert "icecore-test" == await shown(second, "application_name")
    await pool.close()


async def test_the_committer_reaches_the_second_host(silent_first: str) -> None:
    committer = Committer(silent_first)
    connection = await committer._connect()
    assert f"{LOCK_TIMEOUT_SECONDS}s" == await shown(connection, "lock_timeout")
    await connection.close()


async def test_a_slow_statement_on_the_second_host_continues(silent_first: str) -> None:
    """The watchdog's probe goes to the server of the connection. It would end before it had tried the first host."""
    pool = ConnectionPool(silent_first, 1, application_name="icecore-test")
    async with pool.connection() as connection:
        await connection.execute("select pg_sleep(3)")
    await pool.close()


async def test_without_a_wish_for_the_primary_the_hosts_keep_their_order(silent_first: str) -> None:
    """A connection to the standby must not make it the first choice."""
    dsn = make_conninfo(silent_first, target_session_attrs="any")
    for _ in range(2):
        began = asyncio.get_running_loop().time()
        async with await connect(dsn, connect_timeout=2):
            assert asyncio.get_running_loop().time() - began > 1.9


async def test_hosts_that_are_all_silent_end_in_time() -> None:
    """The limit is that of one host for each."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = f"{one.getsockname()[1]},{other.getsockname()[1]}"
        pool = ConnectionPool(make_conninfo(host="127.0.0.1,127.0.0.1", port=ports, user="icecore"), 1, application_name="icecore-test")
        began = asyncio.get_running_loop().time()
        with pytest.raises(ServiceUnavailable):
            async with pool.connection():
                pass
        assert (
            2 * connections.CONNECT_SECONDS_MAX - 0.1 < asyncio.get_running_loop().time() - began < 2 * connections.CONNECT_SECONDS_MAX + 1
        )


NETWORK_OPTIONS = {
    socket.TCP_USER_TIMEOUT: 5_000,
    socket.TCP_KEEPIDLE: 5,
    socket.TCP_KEEPINTVL: 2,
    socket.TCP_KEEPCNT: 2,
}


def network_options(connection: psycopg.AsyncConnection) -> dict[int, int]:
    with socket.socket(fileno=os.dup(connection.fileno())) as opened:
        return {option: opened.getsockopt(socket.IPPROTO_TCP, option) for option in NETWORK_OPTIONS}


async def test_every_connection_ends_soon_after_its_host_has_disappeared(database: str) -> None:
    """Without a word, as when its machine loses power. By Linux's own settings, a statement would wait for a quarter of an hour."""
    async with CuttingProxy(database).running() as proxy:
        async with await connect(proxy.dsn) as connection:
            assert NETWORK_OPTIONS == network_options(connection)
        async with await connect(proxy.dsn, transaction_pooled=True) as connection:
            assert NETWORK_OPTIONS == network_options(connection)
        async with await connect_subscriber(proxy.dsn) as connection:
            assert NETWORK_OPTIONS == network_options(connection)
        async with locked(proxy.dsn, "sink") as held:
            assert held is not None
            assert NETWORK_OPTIONS == network_options(held)
        async with await rebuild_part.connect(proxy.dsn) as connection:
            assert NETWORK_OPTIONS | {socket.TCP_USER_TIMEOUT: 0} == network_options(connection), "Postgres may pause during a COPY"
        async with await connect(make_conninfo(proxy.dsn, tcp_user_timeout=7_000)) as connection:
            assert NETWORK_OPTIONS | {socket.TCP_USER_TIMEOUT: 7_000} == network_options(connection), "the URL takes precedence"


async def test_a_pool_that_is_closed_keeps_no_connection(database: str) -> None:
    """Neither the one in use, nor those of requests that still wait for one."""
    pool, used = ConnectionPool(database, 1, application_name="icecore-test"), list[psycopg.AsyncConnection]()

    async def wait_and_use() -> None:
        async with pool.connection() as connection:
            used.append(connection)
            await connection.execute("select 1")

    async with pool.connection() as connection:
        used.append(connection)
        waiting = asyncio.create_task(wait_and_use())
        await asyncio.sleep(0.01)
        await pool.close()
        await connection.execute("select 1")
    await waiting
    assert [True, True] == [each.closed for each in used]
    assert 0 == pool.in_use
