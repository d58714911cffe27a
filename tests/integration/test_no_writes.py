"""A Postgres that reads but does not write: mutations get 503, health reports it, reads continue, and it recovers by itself."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from icecore.exit_codes import ExitCode
from tests.fixtures.catalog import SECRET_KEY, CatalogServer
from tests.fixtures.operator_commands import icecore_with
from tests.fixtures.rest_client import RestClient, set_properties

HEALED_SECONDS_MAX = 10.0
WRITING = (
    ["rebuild"],
    ["rebuild", "--statistics"],
    ["sinks", "skip", "out", "1", "--reason", "broken"],
    ["sinks", "replay", "out", "--from", "1"],
    ["sinks", "replay", "out", "--cancel"],
)


@pytest.fixture
def client(catalog_server: CatalogServer) -> Iterator[RestClient]:
    opened = RestClient(catalog_server.url)
    opened.create_namespace("a")
    yield opened
    opened.close()


def health_of(server: CatalogServer) -> tuple[int, Any]:
    """Status and body."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request("GET", "/health")
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


def metadata_files(server: CatalogServer) -> set[Path]:
    return set(server.warehouse_directory.rglob("*.metadata.json"))


def until_created(client: RestClient, name: str) -> None:
    deadline = time.monotonic() + HEALED_SECONDS_MAX
    while (response := client.create_namespace(name)).status != 200:
        assert 503 == response.status
        assert time.monotonic() < deadline, response.body
        time.sleep(0.05)


@pytest.mark.parametrize("cut", [True, False], ids=["sessions cut", "sessions left"])
def test_a_read_only_postgres_refuses_writes_and_heals(catalog_server: CatalogServer, client: RestClient, cut: bool) -> None:
    """As a standby after a failover (25006). It is not an internal error, and existing sessions stay read-only."""
    name = sql.Identifier(str(conninfo_to_dict(catalog_server.dsn)["dbname"]))
    client.create_table(["a"], "t")
    files = metadata_files(catalog_server)
    others = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(catalog_server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} set default_transaction_read_only = on").format(name))
        connection.execute(others)
        assert 503 == health_of(catalog_server)[0], "before a write is refused"
        refused = client.create_namespace("b")
        assert (503, "ServiceUnavailableException") == refused.error
        assert "read-only" in refused.message
        status, health = health_of(catalog_server)
        assert (503, True) == (status, "read-only" in health["log"]["error"])
        assert 200 == client.call("GET", "/namespaces").status
        assert {503} == {client.commit(["a"], "t", set_properties(k=str(number))).status for number in range(5)}
        assert 503 == client.create_table(["a"], "u").status
        assert files == metadata_files(catalog_server), "of refused mutations nothing is kept"
        connection.execute("set default_transaction_read_only = off")
        connection.execute(sql.SQL("alter database {} reset default_transaction_read_only").format(name))
        if cut:
            connection.execute(others)
    until_created(client, "b")
    deadline = time.monotonic() + HEALED_SECONDS_MAX
    while health_of(catalog_server)[0] != 200:
        assert time.monotonic() < deadline, health_of(catalog_server)
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("code", "said"), [("53100", "no space left"), ("53200", "run out of a resource"), ("58030", "its storage reports an error")]
)
def test_a_full_disk_refuses_writes_and_heals(catalog_server: CatalogServer, client: RestClient, code: str, said: str) -> None:
    """Postgres's error if it cannot extend a file. It does not depend on the command and is not stored for its key."""
    with psycopg.connect(catalog_server.dsn, autocommit=True) as connection:
        connection.execute(
            "create function public.full_disk() returns trigger language plpgsql as "
            f"$$ begin raise exception 'could not extend file' using errcode = '{code}'; end $$".encode()
        )
        connection.execute("create trigger full_disk before insert on icecore.events for each row execute function public.full_disk()")
        refused = client.create_namespace("b")
        assert (503, "ServiceUnavailableException") == refused.error
        assert said in refused.message
        status, health = health_of(catalog_server)
        assert (503, True) == (status, said in health["log"]["error"])
        assert 200 == client.call("GET", "/namespaces").status
        connection.execute("drop trigger full_disk on icecore.events")
    until_created(client, "b")
    assert 200 == health_of(catalog_server)[0]


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_commands_refuse_a_primary_that_is_read_only_in_one_sentence(
    client: RestClient, catalog_server: CatalogServer, arguments: list[str]
) -> None:
    """For example one whose operator prepares a switchover."""
    name = sql.Identifier(str(conninfo_to_dict(catalog_server.dsn)["dbname"]))
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("alter database {} set default_transaction_read_only = on").format(name))
    settings = {"ICECORE_DATABASE_URL": catalog_server.dsn, "ICECORE_SECRET_KEY": SECRET_KEY, "ICECORE_SINKS__OUT__TYPE": "stdout"}
    ended = icecore_with(settings, *arguments)
    assert (ExitCode.DATABASE, "") == (ended.returncode, ended.stdout), ended.stderr
    assert ended.stderr.startswith("icecore: This Postgres is read-only and accepts no writes: ")
    assert 1 == len(ended.stderr.splitlines())
