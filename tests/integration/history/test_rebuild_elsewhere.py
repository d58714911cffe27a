"""Consumers in other processes know every table from the stream alone, while servers are killed and clients write."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from tests.fixtures.catalog import SECRET_KEY, opened_catalog
from tests.fixtures.command_runs import CommandRun
from tests.fixtures.rest_client import RestClient, set_properties
from tests.integration.history.test_event_pages import create
from tests.servers.icecore import PROGRAM, START_SECONDS_MAX, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import POLL_SECONDS, free_port, log_tail, responds, wait_until_ready

WRITERS = 4
COMMITS = 60
CONSUMER_SECONDS_MAX = 120
END = "the_end"


class Server:
    """`icecore serve` with two workers on one port, which is killed and restarted."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "serve.log"
        self._environment = clean_environment() | {"ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": SECRET_KEY}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(PROGRAM), "serve", "--port", str(self.port), "--workers", "2"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self._environment, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        wait_until_ready(self._process, lambda: responds(f"{self.url}/health"), seconds_max=START_SECONDS_MAX, log=self.log)

    def kill(self) -> None:
        """kill -9 of the server and its workers."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[Server]:
    """Runs on a new database with the warehouse `demo`."""

    async def prepare() -> None:
        async with opened_catalog(database, tmp_path / "warehouse"):
            pass

    asyncio.run(prepare())
    opened = Server(database, tmp_path)
    opened.start()
    yield opened
    with contextlib.suppress(ProcessLookupError):
        opened.kill()


@contextlib.contextmanager
def consumer(server: Server, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """stream_reader.py in a separate process."""
    command = [sys.executable, "-m", "tests.integration.history.stream_reader", str(server.port), END, *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def rebuilt(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """The result of a consumer."""
    output, _ = process.communicate(timeout=CONSUMER_SECONDS_MAX)
    came_to: dict[str, Any] = json.loads(output)
    return came_to


class Writers:
    """Threads that create, commit to, rename and drop tables, in separate namespaces and a common one. They continue after a kill."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.half_done = threading.Barrier(WRITERS + 1)
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        drawn = random.Random(number)
        client = RestClient(self._server.url)
        for done in range(COMMITS):
            if done == COMMITS // 2:
                self.half_done.wait()
            # A refusal or a killed server. Both are permitted, because the test compares with the log.
            try:
                self._step(client, drawn, number, done)
            except (OSError, http.client.HTTPException):
                client.close()
                client = RestClient(self._server.url)
                while not responds(f"{self._server.url}/health"):
                    time.sleep(POLL_SECONDS)
        client.close()

    def _step(self, client: RestClient, drawn: random.Random, number: int, done: int) -> None:
        levels, name = [drawn.choice((f"own{number}", "all"))], f"t{drawn.randrange(4)}"
        match drawn.randrange(8):
            case _ if done < 2:
                client.create_namespace((f"own{number}", "all")[done])
            case 0 | 1:
                client.create_table(levels, name)
            case 2:
                client.rename_table((levels, name), (["all"], f"{name}{drawn.randrange(9)}"))
            case 3:
                client.drop_table(levels, name)
            case _:
                client.commit(levels, name, set_properties(p=str(drawn.random())))


def held(client: RestClient) -> dict[str, str]:
    """The catalog's tables and their metadata locations."""
    tables = {}
    for (level,) in client.call("GET", "/namespaces").json["namespaces"]:
        for name in client.table_names(level):
            tables[f"{level}.{name}"] = client.load_table([level], name).json["metadata-location"]
    return tables


def head(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select max(notification_id) from icecore.events").fetchone()
    assert row is not None
    return int(row[0])


async def commit_elsewhere(dsn: str, directory: Path) -> None:
    """Commits by a third process, while no server runs."""
    async with opened_catalog(dsn, directory) as catalog:
        run = await CommandRun.on(catalog)
        for number in range(5):
            await create(run, f"meanwhile{number}")


def test_from_the_stream_alone(server: Server, database: str, tmp_path: Path) -> None:
    """Two workers, concurrent writers and a kill -9: nothing is lost, repeated or out of order. Negative control: a consumer that
    reconnects without its position misses events.
    """
    with consumer(server) as faithful, consumer(server, "naive") as naive:
        writers = Writers(server)
        writers.half_done.wait()
        for process in (faithful, naive):
            assert process.stdout is not None
            assert "following\n" == process.stdout.readline()
        server.kill()
        asyncio.run(commit_elsewhere(database, tmp_path / "warehouse"))
        server.start()
        writers.join()
        client = RestClient(server.url)
        tables = held(client)
        assert 200 == client.create_namespace(END).status
        client.close()
        end = head(database)
        one, other = rebuilt(faithful), rebuilt(naive)
    assert len(tables) > 5
    assert tables == one["tables"]
    assert list(range(1, end + 1)) == one["positions"]
    assert set() < set(range(1, end + 1)) - set(other["positions"])
    assert 0 == server.stop(), log_tail(server.log)


def test_streams_end_with_the_server(server: Server) -> None:
    """SIGTERM: each stream and each long poll gets a complete response, and the server ends at once."""
    connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=30) for _ in range(6)]
    for number, connection in enumerate(connections):
        if number % 2:
            connection.request("GET", "/history/v1/events?after=now", headers={"Accept": "text/event-stream"})
        else:
            connection.request("GET", "/history/v1/events?after=now&wait-seconds=60")
    streams = [connection.getresponse() for connection in connections[1::2]]
    assert all(stream.readline().startswith(b": ") for stream in streams)
    assert 0 == server.stop(), log_tail(server.log)
    # An incomplete response raises IncompleteRead.
    assert [b"\n"] * 3 == [stream.read() for stream in streams]
    polled = [connection.getresponse() for connection in connections[0::2]]
    assert [[]] * 3 == [json.loads(response.read())["events"] for response in polled]
    assert b"cut off" not in server.log.read_bytes()
    for connection in connections:
        connection.close()


async def test_a_long_poll_returns_a_commit_of_another_process(server: Server, database: str, tmp_path: Path) -> None:
    """On a real server with several workers; the same for a wait for a position."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog, aiohttp.ClientSession() as session:
        run = await CommandRun.on(catalog)
        end = head(database)
        questions = (f"events?after={end}&wait-seconds=60", f"wait?position={end + 1}&wait-seconds=60")

        async def ask(question: str) -> Any:
            async with session.get(f"{server.url}/history/v1/{question}") as answered:
                return await answered.json()

        asked = [asyncio.create_task(ask(question)) for question in questions * 4]
        async with asyncio.timeout(30):
            while waiting(database) == 0:
                await asyncio.sleep(0.01)
            position = await create(run, "woken")
            answered = [await each for each in asked]
        assert [position] * 8 == [each["position"] for each in answered]


def waiting(dsn: str) -> int:
    """The number of processes that listen for events."""
    query = "select count(*) from pg_stat_activity where application_name = 'icecore-subscriber' and datname = current_database()"
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
