"""`/livez` and `/readyz` of a server that runs, stops, or has lost its database."""

import http.client
import json
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

import aiohttp
import psycopg
import pytest
from aiohttp import web

from icecore.api.request_metrics import REQUEST_METRICS
from icecore.api.server import build_runner
from icecore.compose import Application
from icecore.migrations.apply import MigrationError, load_migrations, pending_migrations
from tests.integration.test_program import Serve, connection, process_of, serve

__all__ = ["serve"]


@asynccontextmanager
async def served(catalog: Application) -> AsyncIterator[aiohttp.ClientSession]:
    runner = build_runner(catalog.app)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
            yield session
    finally:
        await runner.cleanup()


async def asked(session: aiohttp.ClientSession, path: str) -> tuple[int, dict[str, str]]:
    async with session.get(path) as response:
        assert "no-store" == response.headers["Cache-Control"]
        return response.status, await response.json()


async def test_probes_are_answered_to_everybody_and_counted_as_no_request(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes are not in the metrics of requests, and need no authentication."""

    async def refuse(headers: object) -> None:
        raise AssertionError("no client is authenticated for a probe")

    monkeypatch.setattr(catalog.authenticator, "authenticate", refuse)
    async with served(catalog) as session:
        assert (200, {"status": "ok"}) == await asked(session, "/livez")
        assert (200, {"status": "ok"}) == await asked(session, "/readyz")
        assert 200 == (await session.head("/readyz")).status
        (await session.get("/health")).release()
    assert {("getHealth", 200): 1} == catalog.app[REQUEST_METRICS].responses


async def test_a_server_without_its_database_is_alive_and_not_ready(catalog: Application) -> None:
    """A restart would not fix it."""
    catalog.backends.connections._dsn = "host=127.0.0.1 port=1 dbname=none"
    await catalog.backends.connections.close()
    async with served(catalog) as session:
        status, said = await asked(session, "/readyz")
        assert (503, "unavailable") == (status, said["status"])
        assert "cannot be reached" in said["reason"]
        assert (200, {"status": "ok"}) == await asked(session, "/livez")


async def test_a_server_whose_database_lacks_a_migration_is_not_ready(catalog: Application) -> None:
    """As after a restore of an older backup. A newer migration is permitted, because servers of the previous version continue."""
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


async def test_a_server_whose_migrations_were_altered_stays_ready(catalog: Application) -> None:
    """All are applied. A new server is refused, so a restart of those that run would end the service."""
    async with served(catalog) as session, await psycopg.AsyncConnection.connect(catalog.dsn, autocommit=True) as direct:
        await direct.execute("update icecore.migrations set checksum = 'altered', name = 'altered'")
        assert (200, {"status": "ok"}) == await asked(session, "/readyz")
        with pytest.raises(MigrationError):
            await pending_migrations(catalog.dsn)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_stops_is_alive_and_not_ready(serve: Serve, workers: int) -> None:
    """On open connections of each of its processes; new ones are refused."""
    running = serve("--workers", str(workers))
    body = json.dumps({"namespace": ["late"]}).encode()
    with ExitStack() as opened:
        clients = defaultdict[int, list[http.client.HTTPConnection]](list)
        while len(clients) < workers or min(map(len, clients.values())) < 3:
            client = opened.enter_context(closing(connection(running)))
            client.request("GET", "/readyz")
            assert {"status": "ok"} == json.loads(client.getresponse().read())
            clients[process_of(client, running)].append(client)
        for writing, *_ in clients.values():
            writing.putrequest("POST", f"{running.prefix()}/namespaces")
            writing.putheader("Content-Type", "application/json")
            writing.putheader("Content-Length", str(len(body)))
            writing.endheaders(body[:5])
        time.sleep(0.3)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        for _, probing, living, *_ in clients.values():
            probing.request("GET", "/readyz")
            response = probing.getresponse()
            assert (503, {"status": "unavailable", "reason": "The server is stopping"}) == (response.status, json.loads(response.read()))
            living.request("GET", "/livez")
            assert 200 == living.getresponse().status
        statuses = []
        for writing, *_ in clients.values():
            writing.send(body[5:])
            statuses.append(writing.getresponse().status)
        # The same namespace in each: one of them gets a conflict.
        assert [200] + [409] * (workers - 1) == sorted(statuses)
    assert 0 == running.process.wait(30)
