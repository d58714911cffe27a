"""A call of several commands fails after Postgres committed it, and Postgres is gone when the commands are sent again."""

import asyncio
from typing import Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.commands.execution import committer as module
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.execution.committer import Committer
from icecore.domain.errors import CommitStateUnknown, ServiceUnavailable
from icecore.domain.events import ProjectCreated
from icecore.domain.project import NO_WAREHOUSE
from tests.fixtures.catalog import context


def two_append_requests() -> list[AppendRequest]:
    append_requests = []
    for number in range(2):
        append_request = AppendRequest(context("createProject"))
        project_id = uuid7()
        append_request.add(project_id, NO_WAREHOUSE, None, [ProjectCreated(f"p{number}", f"p{number}")], project_id=project_id)
        append_requests.append(append_request)
    return append_requests


def fails_after_commit(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> asyncio.Event:
    """The first call fails in the server after Postgres has committed it, and loses its connection. Set when it has."""
    send, failed = module._send, asyncio.Event()

    async def fail(connection: Any, *arguments: Any) -> Any:
        result = await send(connection, *arguments)
        if not failed.is_set():
            failed.set()
            await connection.close()
            raise error or RuntimeError("after the commit")
        return result

    monkeypatch.setattr(module, "_send", fail)
    return failed


@pytest.mark.parametrize("returns", [True, False])
async def test_what_may_be_in_the_log_is_never_refused_as_not_done(database: str, monkeypatch: pytest.MonkeyPatch, returns: bool) -> None:
    """Else its metadata files would be deleted. If Postgres returns in time, the result is that of the first call."""
    monkeypatch.setattr(module, "DOUBT_SECONDS_MAX", 30 if returns else 0.3)
    connect, failed, refused = Committer._connect, fails_after_commit(monkeypatch), 0

    async def refuse(committer: Committer) -> Any:
        nonlocal refused
        if failed.is_set() and (refused < 3 or not returns):
            refused += 1
            raise psycopg.OperationalError("connection refused")
        return await connect(committer)

    monkeypatch.setattr(Committer, "_connect", refuse)
    committer = Committer(database, 1)
    submitted = [asyncio.ensure_future(committer.submit(each)) for each in two_append_requests()]
    await asyncio.sleep(0)
    committer.start()
    results = await asyncio.gather(*submitted, return_exceptions=True)
    await committer.close()
    with psycopg.connect(database) as connection:
        row = connection.execute("select count(*) from icecore.events where topic = 'project.created.v1'").fetchone()
    assert row == (2,)
    if returns:
        assert [("appended", 1), ("appended", 2)] == [(each.outcome, each.position) for each in results]  # type: ignore[union-attr]
    else:
        assert [CommitStateUnknown] * 2 == [type(each) for each in results]
        assert {True} == {"unknown, because the connection to Postgres was lost" in str(each) for each in results}


async def test_a_server_that_stops_meanwhile_leaves_no_command_without_a_result(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one that is sent again, nor those after it."""
    connect, failed, again = Committer._connect, fails_after_commit(monkeypatch), asyncio.Event()

    async def stall(committer: Committer) -> Any:
        if failed.is_set():
            again.set()
            await asyncio.Event().wait()
        return await connect(committer)

    monkeypatch.setattr(Committer, "_connect", stall)
    committer = Committer(database, 1)
    submitted = [asyncio.ensure_future(committer.submit(each)) for each in two_append_requests()]
    await asyncio.sleep(0)
    committer.start()
    async with asyncio.timeout(30):
        await again.wait()
    await committer.close()
    async with asyncio.timeout(5):
        results = await asyncio.gather(*submitted, return_exceptions=True)
    assert [CommitStateUnknown] * 2 == [type(each) for each in results]


async def test_a_lost_response_is_counted_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts to reconnect, in which nothing is sent, lose no response."""
    connect, refused = Committer._connect, 0
    failed = fails_after_commit(monkeypatch, psycopg.OperationalError("the connection was lost"))

    async def refuse(committer: Committer) -> Any:
        nonlocal refused
        if failed.is_set() and refused < 3:
            refused += 1
            raise psycopg.OperationalError("connection refused")
        return await connect(committer)

    monkeypatch.setattr(Committer, "_connect", refuse)
    committer = Committer(database, 1)
    committer.start()
    result = await committer.submit(two_append_requests()[0])
    await committer.close()
    assert ("appended", 3, 1) == (result.outcome, refused, committer.metrics.responses_lost)


async def test_a_call_in_doubt_leaves_a_session_that_is_read_only(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a failover: the first session after the lost one is of the former primary, where the command is not in the log."""
    connect, send, sessions = Committer._connect, module._send, list[psycopg.AsyncConnection[Any]]()

    async def former_primary_second(committer: Committer) -> Any:
        sessions.append(await connect(committer))
        if len(sessions) == 2:
            await sessions[1].execute("set default_transaction_read_only = on")
        return sessions[-1]

    async def lose_the_first(connection: Any, *arguments: Any) -> Any:
        if connection is sessions[0]:
            await connection.close()
            raise psycopg.OperationalError("lost")
        return await send(connection, *arguments)

    monkeypatch.setattr(Committer, "_connect", former_primary_second)
    monkeypatch.setattr(module, "_send", lose_the_first)
    committer = Committer(database, 1)
    committer.start()
    async with asyncio.timeout(5):
        result = await committer.submit(two_append_requests()[0])
    assert ("appended", 1, 3) == (result.outcome, result.position, len(sessions))
    assert [True, True, False] == [session.closed for session in sessions]
    await committer.close()


async def test_a_command_submitted_after_the_end_is_refused(database: str) -> None:
    """Nothing would send it, and its request would wait for ever."""
    committer = Committer(database, 1)
    committer.start()
    await committer.close()
    with pytest.raises(ServiceUnavailable, match="stopping"):
        async with asyncio.timeout(5):
            await committer.submit(two_append_requests()[0])
