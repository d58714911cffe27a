"""`/livez` and `/readyz`, as a platform asks them of a server that runs, stops, or has lost its database."""

import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import aiohttp
import psycopg
import pytest
from aiohttp import web

from icecore.api.request_metrics import REQUEST_FIGURES
from icecore.api.server import build_runner
from icecore.compose import Application
from icecore.migrations.apply import load_migrations
from tests.integration.test_program import Serve, connection, serve

__all__ = ["serve"]


@asynccontextmanager
async def served(catalog: Application) -> AsyncIterator[aiohttp.ClientSession]:
    runner = build_runner(catalog.app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        yield session
    await runner.cleanup()


async def asked(session: aiohttp.ClientSession, path: str) -> tuple[int, dict[str, str]]:
    async with session.get(path) as answer:
        assert "no-store" == answer.headers["Cache-Control"]
        return answer.status, await answer.json()


async def test_probes_are_answered_to_everybody_and_counted_as_no_request(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what clients ask is in the metrics of requests. Nobody is authenticated for a probe."""

    async def refuse(headers: object) -> None:
        raise AssertionError("nobody is authenticated for a probe")

    monkeypatch.setattr(catalog.authenticator, "authenticate", refuse)
    async with served(catalog) as session:
        assert (200, {"status": "ok"}) == await asked(session, "/livez")
        assert (200, {"status": "ok"}) == await asked(session, "/readyz")
        assert 200 == (await session.head("/readyz")).status
        (await session.get("/health")).release()
    assert {("getHealth", 200): 1} == catalog.app[REQUEST_FIGURES].answers


async def test_a_server_without_its_database_is_alive_and_not_ready(catalog: Application) -> None:
    """A restart would not mend it."""
    catalog.backends.connections._dsn = "host=127.0.0.1 port=1 dbname=none"
    await catalog.backends.connections.close()
    async with served(catalog) as session:
        status, said = await asked(session, "/readyz")
        assert (503, "unavailable") == (status, said["status"])
        assert "cannot be reached" in said["reason"]
        assert (200, {"status": "ok"}) == await asked(session, "/livez")


async def test_a_server_whose_database_lacks_a_migration_is_not_ready(catalog: Application) -> None:
    """As after a restore of an older backup. A newer migration is no reason: servers of the version before go on."""
    last = load_migrations()[-1]
    record = "insert into icecore.migrations (number, name, checksum, functions) values (%s, %s, '', '')"
    async with served(catalog) as session, await psycopg.AsyncConnection.connect(catalog.dsn, autocommit=True) as direct:
        await direct.execute(record, (9999, "later"))
        assert 200 == (await asked(session, "/readyz"))[0]
        await direct.execute("update icecore.migrations set number = -1 where number = %s", (last.number,))
        reason = f"The database lacks {last}: run `icecore migrate`"
        assert (503, {"status": "unavailable", "reason": reason}) == await asked(session, "/readyz")
        await direct.execute("update icecore.migrations set number = %s where number = -1", (last.number,))
        await direct.execute("delete from icecore.migrations where number = 9999")
        assert 200 == (await asked(session, "/readyz"))[0]


def test_a_server_that_stops_is_alive_and_not_ready(serve: Serve) -> None:
    """On connections that are open already; new ones are refused."""
    running = serve()
    body = json.dumps({"namespace": ["late"]}).encode()
    with closing(connection(running)) as writing, closing(connection(running)) as probing, closing(connection(running)) as living:
        writing.putrequest("POST", f"{running.prefix()}/namespaces")
        writing.putheader("Content-Type", "application/json")
        writing.putheader("Content-Length", str(len(body)))
        writing.endheaders(body[:5])
        for probe in (probing, living):
            probe.request("GET", "/readyz")
            assert {"status": "ok"} == json.loads(probe.getresponse().read())
        time.sleep(0.3)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        probing.request("GET", "/readyz")
        answer = probing.getresponse()
        assert (503, {"status": "unavailable", "reason": "The server is stopping"}) == (answer.status, json.loads(answer.read()))
        living.request("GET", "/livez")
        assert 200 == living.getresponse().status
        writing.send(body[5:])
        assert 200 == writing.getresponse().status
    assert 0 == running.process.wait(30)
