"""Single processes of Postgres are frozen while others work: requests are answered or refused in time."""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from icecore.database.advisory_locks import AdvisoryLock
from icecore.embedded_postgres import embedded_postgres
from icecore.migrations.apply import apply_migrations
from icecore.projections.verify import verify
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.postgres import chosen_binaries
from tests.fixtures.rest_client import RestClient, RestResponse, set_properties, table_path
from tests.fixtures.waiting import wait_for

# The promise plus a tolerance for a busy machine, as in the reliability benchmark.
ANSWERED_SECONDS_MAX = 2.0 + 1.0
HEALED_SECONDS_MAX = 10.0
T = TypeVar("T")
LEVELS = ("a",)
READERS = ("icecore-reads",)
COMMITTERS = ("icecore-committer",)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A separate migrated cluster, because other users would have to wait too."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-test-"))
    directory.chmod(0o755)
    with embedded_postgres(directory, binaries=chosen_binaries()) as address:
        asyncio.run(apply_migrations(address))
        yield address
    shutil.rmtree(directory)


@pytest.fixture
def dsn(cluster: str) -> str:
    name = f"test_{secrets.token_hex(6)}"
    template = sql.Identifier(str(conninfo_to_dict(cluster)["dbname"]))
    with psycopg.connect(make_conninfo(cluster, dbname="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template {} strategy file_copy").format(sql.Identifier(name), template))
    return make_conninfo(cluster, dbname=name)


@pytest.fixture
def server(dsn: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """With both connections for commits open, and several for reads."""
    with served_catalog(dsn, tmp_path / "warehouse", jobs=False) as served, ThreadPoolExecutor(8) as threads:
        client = RestClient(served.url)
        client.create_namespace(*LEVELS)
        client.create_table(LEVELS, "t")
        wait_for(lambda: second_committer_opened(dsn, client, threads))
        client.together([("GET", "/namespaces/a/tables/t?snapshots=refs", None, None)] * 8)
        client.close()
        yield served


def second_committer_opened(dsn: str, client: RestClient, threads: ThreadPoolExecutor) -> bool:
    """Whether a commit behind one that waits for the append lock opened another session; not if both were in one call."""
    with psycopg.connect(dsn) as holder:
        holder.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND])
        commits = [threads.submit(client.commit, LEVELS, "t", set_properties(x=secrets.token_hex(4)))]
        wait_for(lambda: sessions(dsn, COMMITTERS, "wait_event_type = 'Lock'") or commits[0].done())
        commits.append(threads.submit(client.create_namespace, "b"))
        wait_for(lambda: len(sessions(dsn, COMMITTERS)) == 2 or all(commit.done() for commit in commits))
        holder.rollback()
    for commit in commits:
        commit.result()
    return len(sessions(dsn, COMMITTERS)) == 2


@pytest.fixture
def client(server: CatalogServer) -> Iterator[RestClient]:
    opened = RestClient(server.url)
    yield opened
    opened.close()


def sessions(dsn: str, names: tuple[str, ...], condition: str = "true") -> list[int]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        own = "datname = current_database() and application_name = any(%s)"
        rows = connection.execute(f"select pid from pg_stat_activity where {own} and {condition}", ([*names],))  # type: ignore[arg-type]
        return [process_id for (process_id,) in rows]


@contextlib.contextmanager
def frozen(process_ids: list[int]) -> Iterator[None]:
    try:
        for process_id in process_ids:
            os.kill(process_id, signal.SIGSTOP)
        yield
    finally:
        for process_id in process_ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)


def timed(call: Callable[[], RestResponse]) -> tuple[float, RestResponse]:
    began = time.monotonic()
    response = call()
    return time.monotonic() - began, response


@pytest.mark.parametrize(
    ("names", "count"),
    [(READERS, 1), (READERS, 100), (COMMITTERS, 1), (COMMITTERS, 100), (READERS + COMMITTERS, 100)],
    ids=["a reader", "all readers", "a committer", "all committers", "all"],
)
async def test_frozen_sessions_are_found_and_replaced(
    server: CatalogServer, client: RestClient, names: tuple[str, ...], count: int
) -> None:
    """While they are frozen, no request waits long, and reads and commits use other sessions."""
    process_ids = sessions(server.dsn, names)[-count:]
    assert len(process_ids) >= min(count, 2)
    with ThreadPoolExecutor(16) as threads, frozen(process_ids):
        asked: list[Future[tuple[float, RestResponse]]] = []
        for n in range(8):
            asked.append(threads.submit(timed, lambda: client.load_table(LEVELS, "t")))
            asked.append(threads.submit(timed, lambda n=n: client.commit(LEVELS, "t", set_properties({f"first{n}": "x"}))))  # type: ignore[misc]
        responses = [each.result() for each in asked]
        assert max(seconds for seconds, _ in responses) < ANSWERED_SECONDS_MAX, sorted(seconds for seconds, _ in responses)
        assert {response.status for _, response in responses} <= {200, 500, 503}
        assert {response.error[1] for _, response in responses if response.status == 500} <= {"CommitStateUnknownException"}
        acknowledged = {f"first{n}" for n in range(8) if responses[2 * n + 1][1].status == 200}
        wait_for(lambda: client.load_table(LEVELS, "t").status == 200, HEALED_SECONDS_MAX)
        wait_for(lambda: client.commit(LEVELS, "t", set_properties(second="x")).status == 200, HEALED_SECONDS_MAX)
    properties = client.load_table(LEVELS, "t").json["metadata"]["properties"]
    assert acknowledged | {"second"} <= set(properties)
    assert [] == (await verify(server.dsn)).differences


def slow_append(dsn: str, seconds: float) -> None:
    """How long each event takes to append, under the lock."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep({seconds}); return new; end $$"  # type: ignore[arg-type]
        )
        connection.execute("create trigger slow before insert on icecore.events for each row execute function public.slow()")


async def test_a_frozen_holder_of_the_append_lock_keeps_commits_out_and_nothing_waiting(server: CatalogServer, client: RestClient) -> None:
    """The outcome of its command is unknown, other commits are refused, and reads continue. When it runs again, it ends without its
    append.
    """
    slow_append(server.dsn, 0.3)
    with ThreadPoolExecutor(16) as threads:
        slow = threads.submit(timed, lambda: client.create_namespace("slow"))
        holder = wait_for(lambda: sessions(server.dsn, COMMITTERS, "wait_event = 'PgSleep'"))
        with frozen(holder):
            commits = [threads.submit(timed, lambda n=n: client.create_namespace(f"n{n}")) for n in range(4)]  # type: ignore[misc]
            reads = [threads.submit(timed, lambda: client.load_table(LEVELS, "t")) for _ in range(4)]
            seconds, unknown = slow.result()
            assert (500, "CommitStateUnknownException") == unknown.error
            assert "retry-after" not in unknown.headers
            assert seconds < ANSWERED_SECONDS_MAX
            for each in commits:
                seconds, refused = each.result()
                assert (503, "ServiceUnavailableException") == refused.error
                assert seconds < ANSWERED_SECONDS_MAX
            for each in reads:
                seconds, read = each.result()
                assert 200 == read.status
                assert seconds < ANSWERED_SECONDS_MAX
            seconds, refused = timed(lambda: client.create_namespace("later"))
            assert (503, "ServiceUnavailableException") == refused.error
            assert seconds < ANSWERED_SECONDS_MAX
        wait_for(lambda: client.create_namespace("later").status == 200, HEALED_SECONDS_MAX)
    assert holder[0] not in sessions(server.dsn, COMMITTERS)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("drop trigger slow on icecore.events")
    listed = [levels[0] for levels in client.call("GET", "/namespaces").json["namespaces"]]
    assert ["a", "b", "later"] == sorted(listed)
    assert [] == (await verify(server.dsn)).differences


def test_what_merely_takes_long_is_answered(server: CatalogServer, client: RestClient) -> None:
    """Neither an append that works under the lock for seconds, nor a read that waits for an operator's lock, is refused."""
    slow_append(server.dsn, 2.0)
    seconds, created = timed(lambda: client.create_namespace("slow"))
    assert seconds > 2.0
    assert 200 == created.status
    with psycopg.connect(server.dsn) as operator, ThreadPoolExecutor(1) as threads:
        operator.execute("lock table icecore.read_models in access exclusive mode")
        read = threads.submit(timed, lambda: client.load_table(LEVELS, "t", "?snapshots=refs"))
        wait_for(lambda: sessions(server.dsn, READERS, "wait_event_type = 'Lock' and query_start < clock_timestamp() - interval '1.6 s'"))
        operator.rollback()
        seconds, response = read.result()
        assert seconds > 1.6
        assert 200 == response.status


@pytest.mark.parametrize("session_ends", [False, True])
def test_a_commit_that_waits_for_a_standby_is_answered_once_that_has_it(
    cluster: str, server: CatalogServer, client: RestClient, session_ends: bool
) -> None:
    """Whatever becomes of the waiting session: another one finds the commit in the log, and waits too.

    Postgres confirms a commit whose wait is cancelled, although the standby may not have it. It is lost if the standby takes over.
    """
    with ThreadPoolExecutor(1) as threads, without_standby(cluster) as operator:
        created = threads.submit(client.create_namespace, "replicated")
        # Long enough for a cancellation at the first or second check.
        wait_for(lambda: sessions(server.dsn, COMMITTERS, "wait_event = 'SyncRep' and now() - query_start > interval '3 seconds'"))
        if session_ends:
            (ended,) = sessions(server.dsn, COMMITTERS, "wait_event = 'SyncRep'")
            operator.execute("select pg_terminate_backend(%s)", (ended,))
            wait_for(lambda: sessions(server.dsn, COMMITTERS, f"wait_event = 'SyncRep' and pid <> {ended}"))
        assert not created.done()
        have_standby(operator)
        assert 200 == created.result().status


@pytest.mark.parametrize("key", [None, uuid4()], ids=["nothing to change", "a key used before"])
def test_a_response_that_rests_on_an_earlier_commit_is_given_once_the_standby_has_that(
    cluster: str, server: CatalogServer, client: RestClient, key: UUID | None
) -> None:
    """The session of the earlier commit may have ended before the standby had it."""
    body = {"requirements": [], "updates": [] if key is None else [set_properties(x="replicated")]}
    first = client.call("POST", table_path(LEVELS, "t"), body, key=key)
    with ThreadPoolExecutor(1) as threads, without_standby(cluster) as operator:
        again = threads.submit(client.call, "POST", table_path(LEVELS, "t"), body, key=key)
        wait_for(lambda: again.done() or sessions(server.dsn, COMMITTERS, "wait_event = 'SyncRep'"))
        assert not again.done()
        have_standby(operator)
        assert first.replayable == again.result().replayable


@contextlib.contextmanager
def without_standby(cluster: str) -> Iterator[psycopg.Connection]:
    """Commits wait for a missing standby. Yields a connection of the operator."""
    with psycopg.connect(cluster, autocommit=True) as operator:
        operator.execute("alter system set synchronous_standby_names = 'none_such'")
        operator.execute("select pg_reload_conf()")
        try:
            with psycopg.connect(cluster, autocommit=True) as other:
                wait_for(lambda: ("none_such",) == other.execute("show synchronous_standby_names").fetchone())
            yield operator
        finally:
            have_standby(operator)


def have_standby(operator: psycopg.Connection) -> None:
    operator.execute("alter system reset synchronous_standby_names")
    operator.execute("select pg_reload_conf()")
