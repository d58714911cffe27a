"""A read-only server on a streaming standby: reads and waits for positions are served, changes are refused, and nothing is written."""

import asyncio
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.reliability.cluster import Cluster, open_directory
from icecore.exit_codes import ExitCode
from icecore.migrations.apply import apply_migrations
from tests.fixtures.catalog import SECRET_KEY, served_catalog
from tests.fixtures.operator_commands import icecore_with, operator_on, read_json
from tests.fixtures.rest_client import RestClient, set_properties
from tests.integration.test_program import command, icecore
from tests.servers.pgbouncer import pgbouncer
from tests.servers.processes import free_port, responds, running

LEVELS = ("a",)
WAIT_SECONDS = 30
OUT = {"ICECORE_SINKS__OUT__TYPE": "stdout"}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    """The DSNs of a primary and its standby, with a migrated database."""
    with ExitStack() as opened:
        directories = [open_directory() for _ in range(2)]
        for directory in directories:
            opened.callback(shutil.rmtree, directory, ignore_errors=True)

        async def made() -> tuple[Cluster, Cluster]:
            primary = await Cluster.made(directories[0])
            opened.callback(primary.kill)
            await primary.create_database("catalog")
            await apply_migrations(primary.dsn("catalog"))
            standby = await primary.standby(directories[1])
            opened.callback(standby.kill)
            return primary, standby

        primary, standby = asyncio.run(made())
        yield primary.dsn("catalog"), standby.dsn("catalog")


@dataclass(frozen=True)
class Both:
    """A server on the primary and a read-only server on the standby, with a client of each."""

    writer: RestClient
    reader: RestClient
    reader_url: str
    primary_dsn: str
    standby_dsn: str

    def get(self, path: str) -> Any:
        """From the read-only server."""
        with urllib.request.urlopen(f"{self.reader_url}{path}", timeout=60) as response:
            return json.loads(response.read())

    def wait(self, position: int, seconds: float) -> bool:
        return bool(self.get(f"/history/v1/wait?position={position}&wait-seconds={seconds}")["reached"])


def of_standby(dsn: str) -> dict[str, str]:
    """The settings of a server on the standby."""
    return {"ICECORE_READ_ONLY": "true", "ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": SECRET_KEY}


@pytest.fixture(scope="module")
def both(servers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    primary_dsn, standby_dsn = servers
    directory, port = tmp_path_factory.mktemp("standby"), free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        served_catalog(primary_dsn, directory / "warehouse", jobs=False) as primary,
        running(
            command("serve", "--port", str(port)),
            log=directory / "standby.log",
            ready=lambda: responds(f"{url}/readyz"),
            seconds_max=60,
            environment=os.environ | of_standby(standby_dsn),
        ),
        closing(RestClient(primary.url)) as writer,
        closing(RestClient(url)) as reader,
    ):
        writer.create_namespace(*LEVELS)
        assert 200 == writer.create_table(LEVELS, "t").status
        yield Both(writer, reader, url, primary_dsn, standby_dsn)


def property_of(client: RestClient) -> str | None:
    loaded = client.load_table(LEVELS, "t")
    assert 200 == loaded.status, loaded.body
    value: str | None = loaded.json["metadata"]["properties"].get("k")
    return value


def test_a_reader_that_waits_for_its_position_reads_its_write(both: Both) -> None:
    for number in range(20):
        position = both.writer.commit(LEVELS, "t", set_properties(k=str(number))).position
        assert both.wait(position, WAIT_SECONDS)
        assert str(number) == property_of(both.reader)
        assert str(number) == property_of(both.reader.at(position))


def test_a_standby_that_lags_says_so(both: Both) -> None:
    """Its replay is paused. A wait ends soon after the event is replayed, without a notification."""
    before = both.writer.commit(LEVELS, "t", set_properties(k="before")).position
    assert both.wait(before, WAIT_SECONDS)
    with psycopg.connect(both.standby_dsn, autocommit=True) as standby, ThreadPoolExecutor(1) as threads:
        standby.execute("select pg_wal_replay_pause()")
        try:
            position = both.writer.commit(LEVELS, "t", set_properties(k="after")).position
            assert not both.wait(position, 0.5)
            assert "before" == property_of(both.reader)
            beyond = both.reader.at(position).load_table(LEVELS, "t")
            assert (400, "BadRequestException") == beyond.error
            waiting = threads.submit(both.wait, position, WAIT_SECONDS)
            time.sleep(0.5)
        finally:
            standby.execute("select pg_wal_replay_resume()")
        resumed = time.monotonic()
        assert waiting.result()
        assert time.monotonic() - resumed < WAIT_SECONDS / 3
        assert "after" == property_of(both.reader)


def test_a_time_that_the_standby_has_not_replayed_is_refused_for_now(both: Both) -> None:
    """A commit may have been recorded before that time and not have arrived."""
    with psycopg.connect(both.primary_dsn) as primary:
        row = primary.execute("select max(notification_id), max(recorded_at), clock_timestamp() from icecore.events").fetchone()
    assert row is not None
    position, recorded_at, now = row
    assert both.wait(position, WAIT_SECONDS)
    assert 200 == both.reader.at(recorded_at.isoformat()).load_table(LEVELS, "t").status
    refused = both.reader.at(now.isoformat()).load_table(LEVELS, "t")
    assert (503, "ServiceUnavailableException") == refused.error
    assert "the position of an event, or an earlier time, can be read" in str(refused.message)
    assert 200 == both.reader.at(position).load_table(LEVELS, "t").status


def test_changes_are_refused_and_nothing_is_written(both: Both) -> None:
    refused = [
        both.reader.create_namespace("b"),
        both.reader.commit(LEVELS, "t", set_properties(k="x")),
        both.reader.create_table(LEVELS, "u"),
        both.reader.drop_table(LEVELS, "t"),
    ]
    assert {(406, "UnsupportedOperationException")} == {each.error for each in refused}
    assert {"This server is read-only: send changes to a server of the primary"} == {each.message for each in refused}


def test_only_reads_are_advertised(both: Both) -> None:
    """Clients would send a metrics report for each scan."""
    endpoints = both.get("/catalog/v1/config")["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in endpoints
    assert {"GET", "HEAD"} == {endpoint.split()[0] for endpoint in endpoints}


def test_probes_say_that_the_server_is_read_only(both: Both) -> None:
    assert {"status": "ok", "read-only": True} == both.get("/readyz")
    health = both.get("/health")
    assert ("ok", True) == (health["status"], health["read-only"])


def test_what_writes_refuses_a_standby(both: Both) -> None:
    """A worker, and a server that is not read-only."""
    settings = of_standby(both.standby_dsn)
    worker = icecore("worker", **settings)
    assert ExitCode.USAGE == worker.returncode
    assert "ICECORE_READ_ONLY is set" in worker.stderr
    for program in ("serve", "worker"):
        writing = icecore(program, **settings | {"ICECORE_READ_ONLY": "false", "ICECORE_PORT": "0"})
        assert ExitCode.DATABASE == writing.returncode, writing.stderr
        assert "This Postgres is a standby" in writing.stderr


def test_commands_that_read_work_on_a_standby(both: Both) -> None:
    position = both.writer.commit(LEVELS, "t", set_properties(k="logged")).position
    assert both.wait(position, WAIT_SECONDS)
    operator = operator_on(both.standby_dsn, ICECORE_READ_ONLY="true")
    name = read_json(operator, "warehouse", "list")[0]["name"]
    for arguments in (["verify"], ["warehouse", "config", name], ["log"]):
        code, printed, said = operator(*arguments)
        assert ExitCode.OK == code, printed + said
    assert position == int(printed.splitlines()[-1].split()[0])


def test_sinks_of_a_standby_have_no_known_leader(both: Both) -> None:
    """Their positions are shown, and the exit code is that of success."""
    with psycopg.connect(both.primary_dsn, autocommit=True) as primary:
        primary.execute("insert into icecore.sinks (name, epoch, position, leader, led_since) values ('out', 1, 0, 'host', now())")
    assert both.wait(both.writer.commit(LEVELS, "t", set_properties(k="sink")).position, WAIT_SECONDS)
    ended = icecore_with(of_standby(both.standby_dsn) | OUT, "sinks")
    assert ExitCode.OK == ended.returncode, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[1].endswith("leader unknown: this Postgres is a standby")


def test_the_doctor_checks_what_a_read_only_server_needs(both: Both) -> None:
    """It publishes nothing, so its sinks are not checked."""
    examined = icecore_with(of_standby(both.standby_dsn) | OUT, "doctor", "--json")
    assert ExitCode.OK == examined.returncode, examined.stdout + examined.stderr
    names = [check["name"].split()[0] for check in json.loads(examined.stdout)]
    assert ["settings", "address", "database", "schema", "role", "clock", "secret", "warehouse"] == names


def test_the_log_of_a_standby_is_followed(both: Both) -> None:
    position = both.writer.commit(LEVELS, "t", set_properties(k="followed")).position
    assert both.wait(position, WAIT_SECONDS)
    arguments = command("log", "--follow", "--json", "--from", str(position), "--limit", "2")
    with subprocess.Popen(arguments, env=os.environ | of_standby(both.standby_dsn), stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            assert position == json.loads(following.stdout.readline())["position"]
            later = both.writer.commit(LEVELS, "t", set_properties(k="later")).position
            assert later == json.loads(following.stdout.readline())["position"]
            assert ExitCode.OK == following.wait(WAIT_SECONDS)
        finally:
            following.kill()


WRITING = (
    ["migrate"],
    ["rebuild"],
    ["rebuild", "--statistics"],
    ["warehouse", "create", "new", "--profile", '{"type": "local", "directory": "/new"}'],
    ["warehouse", "config", "any", "--default", "a=b"],
    ["sinks", "skip", "out", "1", "--reason", "broken"],
    ["sinks", "replay", "out", "--from", "1"],
    ["sinks", "replay", "out", "--cancel"],
)


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_commands_that_write_refuse_a_standby_in_one_sentence(servers: tuple[str, str], arguments: list[str]) -> None:
    ended = icecore_with(of_standby(servers[1]) | OUT, *arguments)
    assert (ExitCode.DATABASE, "") == (ended.returncode, ended.stdout), ended.stderr
    assert "icecore: This Postgres is a standby and accepts no writes; connect to its primary\n" == ended.stderr


def test_a_pooler_of_the_primary_beside_a_standby_is_refused(servers: tuple[str, str]) -> None:
    """Reads would be ahead of the waits for positions."""
    primary_dsn, standby_dsn = servers
    with pgbouncer(int(str(conninfo_to_dict(primary_dsn)["port"])), "transaction") as port:
        pooler = {"ICECORE_DATABASE_POOLER_URL": make_conninfo(primary_dsn, port=port)}
        ended = icecore("serve", "--port", "0", **of_standby(standby_dsn), **pooler)
    assert ExitCode.DATABASE == ended.returncode, ended.stderr
    assert "is not that of ICECORE_DATABASE_URL" in ended.stderr
