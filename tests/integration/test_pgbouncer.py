"""Icecore behind PgBouncer: session mode works as without it, and transaction mode is refused for what needs a session."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from icecore import server_check
from icecore.database.connection import connect, end_when_idle
from icecore.exit_codes import ExitCode
from icecore.log.changes import LogHead, read_changes
from icecore.migrations.apply import apply_migrations
from icecore.projections.verify import verify
from icecore.server_check import UnfitServerError, check_server, check_server_for_reads
from tests.fixtures.catalog import SECRET_KEY, opened_catalog, served_catalog
from tests.fixtures.operator_commands import icecore_with
from tests.fixtures.rest_client import RestClient, set_properties
from tests.integration.test_program import icecore
from tests.servers.pgbouncer import pgbouncer, role_settings
from tests.servers.postgres import debian_postgres
from tests.servers.processes import free_port


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    """A Postgres with TCP, which PgBouncer needs."""
    with debian_postgres() as dsn:
        prepare_role(dsn, "postgres")
        yield dsn


def prepare_role(dsn: str, role: str) -> None:
    """Gives `role` what the page on poolers asks for."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in role_settings(role):
            connection.execute(statement.encode())


async def new_database(direct: str) -> str:
    name = f"test_{secrets.token_hex(6)}"
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as connection:
        await connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    dsn = make_conninfo(direct, dbname=name)
    await apply_migrations(dsn)
    return dsn


async def locks(direct: str) -> int:
    """The number of advisory locks that are held."""
    async with await psycopg.AsyncConnection.connect(direct) as connection:
        row = await (await connection.execute("select count(*) from pg_locks where locktype = 'advisory'")).fetchone()
    assert row is not None
    return int(row[0])


async def verified(dsn: str) -> bool:
    return (await verify(dsn)).ok


def through(dsn: str, port: int) -> str:
    return make_conninfo(dsn, port=port)


def port_of(dsn: str) -> int:
    return int(str(conninfo_to_dict(dsn)["port"]))


async def test_a_pool_of_sessions_is_accepted(direct: str) -> None:
    with pgbouncer(port_of(direct), "session") as port:
        await check_server(through(direct, port))


async def test_a_pool_of_one_session_is_refused_in_time(direct: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection waits for the session of the first."""
    monkeypatch.setattr(server_check, "SESSIONS_SECONDS_MAX", 2.0)
    with (
        pgbouncer(port_of(direct), "session", default_pool_size="1") as port,
        pytest.raises(UnfitServerError, match="does not open two sessions within 2 s"),
    ):
        await check_server(through(direct, port))


@pytest.mark.parametrize(
    "settings",
    [{}, {"default_pool_size": "1"}, {"server_round_robin": "1"}, {"server_lifetime": "0"}],
    ids=["default", "one", "round robin", "each session once"],
)
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_transaction_and_statement_mode_are_refused(direct: str, mode: str, settings: dict[str, str]) -> None:
    """A leader would lose its lock to another client, and LISTEN its notifications, without an error."""
    with pgbouncer(port_of(direct), mode, **settings) as port:
        for connections in range(1, 4):
            # The pool has as many idle sessions as were ever used at once.
            use_at_once(through(direct, port), 1 if "default_pool_size" in settings else connections)
            with pytest.raises(UnfitServerError, match="in transaction or statement mode"):
                await check_server(through(direct, port))


def use_at_once(dsn: str, sessions: int) -> None:
    opened = [psycopg.connect(dsn, prepare_threshold=None, autocommit=True) for _ in range(sessions)]
    for connection in opened:
        connection.pgconn.send_query(b"select pg_sleep(0.2)")
    for connection in opened:
        while connection.pgconn.get_result() is not None:
            pass
        connection.close()


async def test_requests_are_served_in_transaction_mode(direct: str, tmp_path: Path) -> None:
    """Everything that needs a session uses the direct connection. Nothing is prepared."""
    dsn = await new_database(direct)
    with pgbouncer(port_of(direct), "transaction", default_pool_size="3") as port:
        settings = {"jobs": False, "database_pooler_url": SecretStr(through(dsn, port))}
        with served_catalog(dsn, tmp_path / "warehouse", **settings) as server, ThreadPoolExecutor(8) as threads:
            with closing(RestClient(server.url)) as client:
                client.create_namespace("a")
                client.create_table(["a"], "t")

            def commit(number: int) -> int:
                with closing(RestClient(server.url)) as own:
                    assert 200 == own.load_table(["a"], "t").status
                    return own.commit(["a"], "t", set_properties(k=str(number))).status

            assert {200} == {*threads.map(commit, range(64))}
            assert 0 == await locks(direct)
        assert await verified(dsn)


async def test_warehouses_are_created_at_once_behind_a_pooler(direct: str, tmp_path: Path) -> None:
    """Each takes the lock of creations and releases it in the same session, although each transaction uses another session of the pool."""
    dsn = await new_database(direct)
    with pgbouncer(port_of(direct), "transaction", default_pool_size="3", server_round_robin="1") as port:
        settings = {"jobs": False, "local_warehouse_roots": (tmp_path,), "database_pooler_url": SecretStr(through(dsn, port))}
        with served_catalog(dsn, tmp_path / "warehouse", **settings) as server, ThreadPoolExecutor(4) as threads:

            def create(number: int) -> int:
                directory = tmp_path / str(number)
                directory.mkdir()
                body = {"warehouse-name": f"w{number}", "storage-profile": {"type": "local", "directory": str(directory)}}
                with closing(RestClient(server.url)) as own:
                    own._root = "/management/v1/warehouse"
                    return own.call_root("POST", "", body).status

            assert {201} == {*threads.map(create, range(12))}
            assert 0 == await locks(direct)


async def test_jobs_use_sessions_of_postgres_where_requests_use_a_pooler(direct: str, tmp_path: Path) -> None:
    """A worker leads by locks of its sessions. It has no connection to the pooler, which does not run here."""
    dsn = await new_database(direct)
    pooler = SecretStr(through(dsn, free_port()))
    async with opened_catalog(dsn, tmp_path / "warehouse", jobs=True, database_pooler_url=pooler) as catalog:
        assert catalog.backends.session_connections is catalog.backends.connections
        assert isinstance((await catalog.health())["log"]["position"], int)
    assert await verified(dsn)


async def test_a_session_that_is_ended_behind_a_pooler_is_a_broken_connection(direct: str) -> None:
    """PgBouncer passes on Postgres's error and adds its own, so that one statement has two results."""
    dsn = await new_database(direct)
    with pgbouncer(port_of(direct), "transaction") as port:
        async with (
            await connect(through(dsn, port), transaction_pooled=True) as through_pooler,
            await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other,
            other.transaction(),
        ):
            await other.execute("lock table icecore.events in access exclusive mode")
            reading = asyncio.create_task(read_changes(through_pooler, LogHead(0, None)))
            waiting = "select pg_terminate_backend(pid) from pg_locks where not granted and pid <> pg_backend_pid()"
            while not await (await other.execute(waiting)).fetchall():
                await asyncio.sleep(0.05)
            with pytest.raises(psycopg.OperationalError):
                await reading


async def test_a_pooler_must_lead_to_the_same_database(direct: str) -> None:
    """Of another server too, in which a database may have the same oid."""
    dsn, other = await new_database(direct), await new_database(direct)
    with pgbouncer(port_of(direct), "transaction") as port:
        await check_server(dsn, through(dsn, port))
        with pytest.raises(UnfitServerError, match="is not that of ICECORE_DATABASE_URL"):
            await check_server(dsn, through(other, port))
    with debian_postgres() as elsewhere:
        assert oid(elsewhere) == oid(direct)
        prepare_role(elsewhere, "postgres")
        with (
            pgbouncer(port_of(elsewhere), "transaction") as port,
            pytest.raises(UnfitServerError, match="is not that of ICECORE_DATABASE_URL"),
        ):
            await check_server(direct, through(elsewhere, port))


def oid(dsn: str) -> int:
    """Of the database."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select oid from pg_database where datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("reset lock_timeout", "have no lock_timeout, which"),
        ("reset statement_timeout", "have no statement_timeout, which"),
        ("reset all", "have no lock_timeout and statement_timeout, which"),
        ("set synchronous_commit = off", "can lose commits it has acknowledged: synchronous_commit is off"),
        ("set default_transaction_isolation = serializable", "default_transaction_isolation is serializable"),
    ],
)
async def test_a_pooler_whose_sessions_have_unfit_settings_is_refused(direct: str, change: str, message: str) -> None:
    """They are those of its role, because a pooler drops the options of connections."""
    role = f"role_{secrets.token_hex(6)}"
    with psycopg.connect(direct, autocommit=True) as admin:
        admin.execute(f"create role {role} login".encode())
        prepare_role(direct, role)
        with pgbouncer(port_of(direct), "transaction", user=role) as port:
            pooler_dsn = make_conninfo(through(direct, port), user=role)
            await check_server(direct, pooler_dsn)
            admin.execute(f"alter role {role} {change}".encode())
        with pgbouncer(port_of(direct), "transaction", user=role) as port:
            with pytest.raises(UnfitServerError, match=message):
                await check_server(direct, make_conninfo(pooler_dsn, port=port))
            if "synchronous_commit" in change:
                # A read-only server acknowledges no commits.
                await check_server_for_reads(direct, make_conninfo(pooler_dsn, port=port))
            else:
                with pytest.raises(UnfitServerError, match=message):
                    await check_server_for_reads(direct, make_conninfo(pooler_dsn, port=port))
        admin.execute(f"drop role {role}".encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("reset lock_timeout", "DATABASE_URL have no lock_timeout, which"),
        ("reset statement_timeout", "DATABASE_URL have no statement_timeout, which"),
        ("set default_transaction_isolation = serializable", "default_transaction_isolation is serializable"),
    ],
)
@pytest.mark.parametrize("check", [check_server, check_server_for_reads])
async def test_a_pooler_in_session_mode_with_unfit_settings_is_refused(
    direct: str, change: str, message: str, check: Callable[[str], Awaitable[object]]
) -> None:
    """PgBouncer drops the options of connections in this mode too."""
    role = f"role_{secrets.token_hex(6)}"
    with psycopg.connect(direct, autocommit=True) as admin:
        admin.execute(f"create role {role} login".encode())
        prepare_role(direct, role)
        with pgbouncer(port_of(direct), "session", user=role) as port:
            await check(make_conninfo(through(direct, port), user=role))
            admin.execute(f"alter role {role} {change}".encode())
        with pgbouncer(port_of(direct), "session", user=role) as port, pytest.raises(UnfitServerError, match=message):
            await check(make_conninfo(through(direct, port), user=role))
        admin.execute(f"drop role {role}".encode())


async def test_a_leader_ends_when_it_is_idle_behind_a_pooler_in_session_mode(direct: str) -> None:
    """A statement sets this limit: no option of the connection arrives."""
    with pgbouncer(port_of(direct), "session") as port:
        async with await connect(through(direct, port), options="-c idle_session_timeout=7s") as connection:
            shown = "select current_setting('idle_session_timeout')"
            assert ("0",) == await (await connection.execute(shown)).fetchone()
            await end_when_idle(connection, 30.0)
            assert ("30s",) == await (await connection.execute(shown)).fetchone()


@pytest.mark.parametrize("check", [check_server, check_server_for_reads])
async def test_an_old_postgres_is_refused(direct: str, monkeypatch: pytest.MonkeyPatch, check: Callable[[str], Awaitable[object]]) -> None:
    """The message has its version and the oldest that is supported."""
    monkeypatch.setattr(server_check, "SERVER_VERSION_MIN", 990000)
    with pytest.raises(UnfitServerError, match=r"^Postgres \d+\.\d+ .*is too old: Icecore needs Postgres 99 or later$"):
        await check(direct)


@pytest.mark.parametrize("check", [check_server, check_server_for_reads])
async def test_a_pooler_that_does_not_run_is_named(direct: str, check: Callable[[str, str], Awaitable[object]]) -> None:
    """Its setting and its address."""
    port = free_port()
    with pytest.raises(UnfitServerError, match=f"^The database of ICECORE_DATABASE_POOLER_URL cannot be reached: .*{port}"):
        await check(direct, through(direct, port))


def test_the_program_refuses_a_pool_of_transactions_in_one_sentence(direct: str) -> None:
    dsn = asyncio.run(new_database(direct))
    with pgbouncer(port_of(direct), "transaction") as port:
        own = {"ICECORE_DATABASE_URL": through(dsn, port), "ICECORE_SECRET_KEY": SECRET_KEY, "ICECORE_PORT": "0"}
        for ended in (
            icecore("serve", **own),
            icecore_with(own | {"ICECORE_READ_ONLY": "true"}, "serve"),
            icecore_with(own, "worker"),
        ):
            assert ExitCode.DATABASE == ended.returncode, ended.stderr
            assert "in transaction or statement mode" in ended.stderr


async def test_a_read_only_server_checks_its_pooler(direct: str) -> None:
    """It would serve the namespaces of one database with the position of another."""
    dsn, other = await new_database(direct), await new_database(direct)
    with pgbouncer(port_of(direct), "transaction") as port:
        await check_server_for_reads(dsn, through(dsn, port))
        environment = {"ICECORE_DATABASE_URL": dsn, "ICECORE_DATABASE_POOLER_URL": through(other, port), "ICECORE_SECRET_KEY": SECRET_KEY}
        ended = icecore("serve", "--port", "0", **environment, ICECORE_READ_ONLY="true")
        assert ExitCode.DATABASE == ended.returncode, ended.stderr
        assert "is not that of ICECORE_DATABASE_URL" in ended.stderr


async def test_a_read_only_server_does_not_migrate(direct: str) -> None:
    """It names what the database lacks."""
    name = f"test_{secrets.token_hex(6)}"
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as connection:
        await connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    dsn = make_conninfo(direct, dbname=name)
    ended = icecore("serve", "--port", "0", ICECORE_DATABASE_URL=dsn, ICECORE_SECRET_KEY=SECRET_KEY, ICECORE_READ_ONLY="true")
    assert ExitCode.DATABASE == ended.returncode, ended.stderr
    assert "The database has no schema icecore yet" in ended.stderr
