"""`icecore doctor`: checks succeed on a correct installation, and otherwise say what to do."""

import asyncio
import base64
import io
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from pydantic import SecretStr
from rich.console import Console

import icecore.doctor as doctor_module
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.doctor import doctor
from icecore.exit_codes import ExitCode
from icecore.publishers.checkpoints import leading, locked
from icecore.secret_keys import check_secret_keys, secret_store
from icecore.security.secrets import SecretKey, SecretStore
from icecore.settings import Settings, SettingsError
from tests.fixtures.catalog import PROJECT_ID, SECRET_KEY, CatalogServer, context, opened_catalog
from tests.fixtures.object_stores import S3_CREDENTIAL, S3Server, s3_profile, s3_server
from tests.fixtures.operator_commands import icecore_with
from tests.fixtures.waiting import wait_for
from tests.integration.test_program import Serve, icecore, serve
from tests.integration.test_serving_role import serving

__all__ = ["s3_server", "serve", "serving"]

Examine = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def examine(database: str) -> Examine:
    """The checks by name, on the test's database. Checks the exit code."""

    def run(**settings: Any) -> dict[str, tuple[str, str]]:
        given = {"database_url": database, "secret_key": SECRET_KEY, "port": 0} | settings
        out = io.StringIO()
        code = doctor(lambda: Settings(**given), Console(file=out), as_json=True)
        found = {check["name"]: (check["status"], check["message"]) for check in json.loads(out.getvalue())}
        assert code == (ExitCode.NO if "failed" in {status for status, _ in found.values()} else ExitCode.OK)
        return found

    return run


@pytest.fixture
def with_warehouse(database: str, tmp_path: Path) -> Path:
    """The directory of a local warehouse."""

    async def make() -> None:
        async with opened_catalog(database, tmp_path / "warehouse"):
            pass

    asyncio.run(make())
    return tmp_path / "warehouse"


def create_s3_warehouse(database: str, directory: Path, profile: dict[str, Any]) -> None:
    async def make() -> None:
        async with opened_catalog(database, directory) as catalog:
            catalog.commands.skip_storage_validation = True  # As a store that failed later.
            command = CreateWarehouse("lake", profile, S3_CREDENTIAL)
            await create_warehouse(catalog.commands, context("createWarehouse"), command, needs_review=False)

    asyncio.run(make())


def test_a_running_server_passes_every_check(serve: Serve) -> None:
    """Beside the server, with the sink that its worker leads. As text and as JSON."""
    sink = {"ICECORE_SINKS__OUT__TYPE": "stdout"}
    served = serve(**sink)

    wait_for(lambda: "sink_leader_started" in served.log.read_text())
    examined = icecore_with(sink, "doctor", "--data", str(served.data), "--json")
    found = {check["name"]: check for check in json.loads(examined.stdout)}
    assert [
        "settings",
        "data folder",
        "address",
        "database",
        "schema",
        "role",
        "clock",
        "secret key",
        "warehouse demo",
        "sink out",
    ] == list(found)
    assert {"ok"} == {check["status"] for check in found.values()}, examined.stdout
    assert "published by" in found["sink out"]["message"]
    assert ExitCode.OK == examined.returncode
    lines = icecore_with(sink, "doctor", "--data", str(served.data)).stdout.splitlines()
    assert [f"ok       {name}" for name in found] == [line.partition(":")[0] for line in lines]


def test_settings_that_are_refused_are_a_failed_check(tmp_path: Path) -> None:
    """As is a data folder that no server has created."""
    refused = icecore("doctor", ICECORE_PROT="1")
    assert (ExitCode.NO, "failed   settings: Unknown setting ICECORE_PROT; did you mean ICECORE_PORT?") == (
        refused.returncode,
        refused.stdout.strip(),
    )
    missing = icecore_with({}, "doctor", "--data", str(tmp_path / "none"))
    assert ExitCode.NO == missing.returncode
    assert "failed   data folder: " in missing.stdout


def test_what_the_settings_cannot_mean_is_said(examine: Examine) -> None:
    """An address that others can reach needs `insecure`."""

    def refuse() -> Settings:
        raise SettingsError("no")

    assert ExitCode.NO == doctor(refuse, Console(file=io.StringIO()), as_json=False)
    assert "failed" == examine(host="0.0.0.0")["settings"][0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "192.0.2.1"}, "Cannot listen on 192.0.2.1:0: "),
        ({"host": "nowhere.invalid"}, "host 'nowhere.invalid' cannot be resolved: "),
    ],
)
def test_an_address_that_a_server_cannot_have_is_found(examine: Examine, settings: dict[str, Any], said: str) -> None:
    """The other checks follow."""
    found = examine(**settings, insecure=True, allowed_hosts=("x",))
    assert ("failed", True) == (found["address"][0], found["address"][1].startswith(said)), found["address"]
    assert "ok" == found["database"][0]


def test_a_port_in_use_is_found_unless_a_server_of_this_catalog_has_it(
    examine: Examine, catalog_server: CatalogServer, new_database: Callable[[], str]
) -> None:
    """A server of another catalog is another program."""
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        for setting in ("port", "metrics_port"):
            status, message = examine(**{setting: port})["address"]
            assert ("failed", True) == (status, f"Port {port} on 127.0.0.1 is in use by another process" in message)
    port = urlsplit(catalog_server.url).port
    assert ("ok", f"a server of this catalog listens at http://127.0.0.1:{port}") == examine(port=port)["address"]
    another = new_database()
    with psycopg.connect(another, autocommit=True) as connection:
        connection.execute("update icecore.server set server_id = gen_random_uuid()")
    assert "failed" == examine(database_url=another, port=port)["address"][0]


def test_an_unreachable_an_unmigrated_and_a_weak_database_are_distinguished(examine: Examine, database: str, empty_database: str) -> None:
    """Checks that depend on it are left out."""
    away = examine(database_url="postgresql://icecore:hunter2@127.0.0.1:1/icecore")
    assert {"settings", "address", "database"} == set(away)
    assert "cannot be reached" in away["database"][1]
    assert "hunter2" not in str(away)
    unmigrated = examine(database_url=empty_database)
    assert "ok" == unmigrated["database"][0]
    assert "failed" == unmigrated["schema"][0]
    assert "run `icecore migrate` first" in unmigrated["schema"][1]
    assert "schema" == list(unmigrated)[-1]
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set default_transaction_read_only = on')  # type: ignore[call-overload]
        status, message = examine(database_url=database)["role"]
        assert ("failed", True) == (status, "Postgres accepts no writes" in message)
        connection.execute("set default_transaction_read_only = off")
        connection.execute(f'alter database "{name}" reset default_transaction_read_only')  # type: ignore[call-overload]
    weak = psycopg.conninfo.make_conninfo(database, options="-c synchronous_commit=off")
    assert "failed" == examine(database_url=weak)["database"][0]
    status, message = examine(database_url=weak, unsafe_durability=True)["database"]
    assert ("warning", True) == (status, "synchronous_commit is off" in message)


async def test_roles_are_distinguished(examine: Examine, serving: str, database: str) -> None:
    """A role that owns the schema could change events. One that only serves is recommended."""
    one = await asyncio.to_thread(examine)
    assert ("warning", True) == (one["role"][0], "owns the schema and could change events" in one["role"][1])
    assert one["role"][1].endswith("see 'Database roles' in the documentation")
    two = await asyncio.to_thread(examine, database_url=serving, database_owner_url=database)
    assert ("ok", True) == (two["role"][0], "owns the schema" in two["role"][1])
    alone = await asyncio.to_thread(examine, database_url=serving)
    assert ("ok", True) == (alone["role"][0], "does not own the schema" in alone["role"][1])
    turned = await asyncio.to_thread(examine, database_url=database, database_owner_url=serving)
    assert ("failed", True) == (turned["role"][0], "does not own the schema icecore" in turned["role"][1])
    away = await asyncio.to_thread(examine, database_url=serving, database_owner_url="postgresql://icecore:hunter2@127.0.0.1:1/icecore")
    assert ("failed", True) == (away["role"][0], "ICECORE_DATABASE_OWNER_URL" in away["role"][1])
    with psycopg.connect(database, autocommit=True) as connection:
        role = str(psycopg.conninfo.conninfo_to_dict(serving)["user"])
        connection.execute(
            psycopg.sql.SQL("revoke execute on all functions in schema icecore from {}").format(psycopg.sql.Identifier(role))
        )
    revoked = await asyncio.to_thread(examine, database_url=serving)
    assert ("failed", True) == (revoked["role"][0], "may not append events: run `icecore migrate`" in revoked["role"][1])


@pytest.mark.parametrize(("seconds", "said"), [(90, "ahead of"), (-90, "behind")])
def test_a_clock_that_differs_is_a_warning(examine: Examine, monkeypatch: pytest.MonkeyPatch, seconds: int, said: str) -> None:
    """With the direction of the difference."""
    assert "ok" == examine()["clock"][0]
    clock = {**doctor_module._SQL, "clock": f"select clock_timestamp() + interval '{seconds} seconds'"}
    monkeypatch.setattr(doctor_module, "_SQL", clock)
    status, message = examine()["clock"]
    assert "warning" == status
    # The time between the two readings is subtracted.
    assert re.match(rf"the database is (90\.0|8\d\.\d) s {said} this machine", message), message


def test_another_secret_key_is_found(examine: Examine, database: str, tmp_path: Path, s3_server: S3Server) -> None:
    """Also a missing one. A store whose credential cannot be decrypted is not accessed."""
    create_s3_warehouse(database, tmp_path / "warehouse", s3_profile(s3_server))
    found = examine()
    assert ("ok", "reads 1 credentials of warehouses") == found["secret key"]
    assert "ok" == found["warehouse lake"][0]
    wrong = examine(secret_key=base64.b64encode(bytes(32)).decode())
    assert "failed" == wrong["secret key"][0]
    assert "ICECORE_SECRET_KEY_FILES_PREVIOUS" in wrong["secret key"][1]
    assert "warehouse lake" not in wrong
    assert "failed" == examine(secret_key=None)["secret key"][0]


async def test_a_key_that_decrypts_no_credential_is_found_although_no_warehouse_has_one(examine: Examine, database: str) -> None:
    """A server does not start with it. The credential is left from a creation that was interrupted."""
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await SecretStore(SecretKey(bytes(32))).put(connection, PROJECT_ID, b"hunter2")
    status, message = (await asyncio.to_thread(examine))["secret key"]
    settings = Settings(database_url=SecretStr(database), secret_key=SecretStr(SECRET_KEY))
    with pytest.raises(SettingsError, match="decrypts no stored credential") as refused:
        await check_secret_keys(settings, secret_store(settings))
    assert ("failed", str(refused.value)) == (status, message)


@pytest.mark.parametrize("fault", ["no bucket", "no server"])
def test_a_store_that_cannot_be_listed_fails(examine: Examine, database: str, tmp_path: Path, s3_server: S3Server, fault: str) -> None:
    """The bucket itself is missing, not an object."""
    broken = {"bucket": "there-is-no-such-bucket"} if fault == "no bucket" else {"endpoint": "http://127.0.0.1:1"}
    create_s3_warehouse(database, tmp_path / "warehouse", s3_profile(s3_server) | broken)
    status, message = examine()["warehouse lake"]
    assert "failed" == status
    endpoint = "http://127.0.0.1:1" if fault == "no server" else s3_server.endpoint
    assert f"The object store at {endpoint} could not be used" in message
    assert "test-secret-access-key" not in message


def test_a_sink_that_does_not_respond_is_named_while_it_is_waited_for(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error: standard output has the checks."""
    monkeypatch.setattr("icecore.waiting_notice.NOTICE_SECONDS", 0.1)
    monkeypatch.setattr(doctor_module, "SINK_SECONDS_MAX", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        assert "failed" == examine(sinks={"out": {"type": "nats", "url": url}})["sink out"][0]
    assert "waiting for the sink out, at most 1 s\n" in capsys.readouterr().err


def test_a_missing_directory_fails(examine: Examine, with_warehouse: Path) -> None:
    """For example if its disk is not mounted."""
    assert "ok" == examine()["warehouse demo"][0]
    with_warehouse.rmdir()
    assert ("failed", True) == (examine()["warehouse demo"][0], "there is no folder" in examine()["warehouse demo"][1])


def test_sinks_without_a_leader_are_opened(examine: Examine, database: str) -> None:
    """Without publishing an event. A sink whose lock another process holds is not opened."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        webhook = {"type": "webhook", "url": f"http://127.0.0.1:{port}/", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
        sinks = {"out": {"type": "stdout"}, "hook": webhook, "away": {"type": "nats", "url": "nats://127.0.0.1:1"}}
        found = examine(sinks=sinks)
        assert ("ok", "can be opened; no process publishes to it at the moment") == found["sink out"]
        assert "ok" == found["sink hook"][0]
        assert "failed" == found["sink away"][0]
        assert "NATS is unreachable" in found["sink away"][1]
    assert "failed" == examine(sinks={"hook": webhook})["sink hook"][0]
    with psycopg.connect(database) as connection:
        assert [] == connection.execute("select * from icecore.sinks").fetchall()

    async def beside_a_leader() -> dict[str, tuple[str, str]]:
        async with locked(database, "out"):
            return await asyncio.to_thread(examine, sinks={"out": {"type": "stdout"}})

    assert ("ok", "another process is starting to publish to it") == asyncio.run(beside_a_leader())["sink out"]


async def test_a_sink_whose_leader_reports_an_error_is_a_failed_check(examine: Examine, database: str) -> None:
    """In `icecore sinks` too, with its leader."""
    async with leading(database, "out", "beginning") as leadership:
        assert leadership is not None
        await leadership.report("refused by the destination", None)
        found = await asyncio.to_thread(examine, sinks={"out": {"type": "stdout"}})
        sink = {"ICECORE_DATABASE_URL": database, "ICECORE_SINKS__OUT__TYPE": "stdout", "COLUMNS": "200"}
        shown = await asyncio.to_thread(icecore, "sinks", **sink)
    assert ("failed", "refused by the destination") == found["sink out"]
    assert ExitCode.NO == shown.returncode
    line = shown.stdout.splitlines()[1]
    assert ["out", "stdout", "0", "0", f"{socket.gethostname()}:{os.getpid()}"] == line.split()[:5]
    assert line.rstrip().endswith("  refused by the destination")


def test_options_that_a_plug_in_refuses_are_one_failed_check(database: str, tmp_path: Path) -> None:
    """In one line without a trace, and the other checks follow."""
    config = tmp_path / "icecore.toml"
    config.write_text('[hooks.contracts]\ntype = "plugin"\nplugin = "schema-contract"\noptions = { hunter2 = 1 }\n')
    own = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": SECRET_KEY}
    examined = icecore_with(own, "doctor", "--config", str(config))
    lines = examined.stdout.splitlines()
    assert (ExitCode.NO, "") == (examined.returncode, examined.stderr)
    assert ["settings", "hook contracts", "address", "database", "schema", "role", "clock", "secret key"] == [
        line.split(":")[0][9:] for line in lines
    ]
    assert lines[1].startswith("failed   hook contracts: The hook contracts: the plug-in 'schema-contract' cannot be created: ")
    assert "hunter2" not in examined.stdout


def test_nothing_is_written(examine: Examine, database: str, with_warehouse: Path) -> None:
    """Neither to the log nor to the warehouse."""

    def state() -> tuple[Any, list[Path]]:
        with psycopg.connect(database) as connection:
            return connection.execute("select count(*) from icecore.events").fetchone(), sorted(with_warehouse.rglob("*"))

    before = state()
    examine()
    assert before == state()
