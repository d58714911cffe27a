"""Commands and examples of the pages on events, sinks, approval, time travel and the log, as they are on the pages."""

import ast
import asyncio
import http.server
import json
import os
import re
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, RESTError

from icecore.settings import load_settings
from tests.fixtures.plugins import installed_plugins
from tests.fixtures.readme import CATALOG_URI, pieces
from tests.fixtures.waiting import wait_for
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore
from tests.servers.nats import nats_server
from tests.servers.paths import ROOT

DOCS = ROOT / "docs"
ADDRESS = "http://127.0.0.1:8181"
COMMAND_SECONDS_MAX = 60
PAGES = pieces(
    "".join(
        (DOCS / page).read_text()
        for page in (
            "reference/rest-extensions.md", "reference/command-line.md", "reference/settings.md", "how-to/approval.md",
            "how-to/audit.md", "how-to/event-sinks.md", "how-to/sizing.md", "concepts/event-log.md", "concepts/time-travel.md",
        )
    )
)  # fmt: skip


class _Rejecting(http.server.BaseHTTPRequestHandler):
    """A webhook that accepts no event."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(422)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""


@dataclass(frozen=True)
class Documented:
    """A server with the pages' sinks and hooks, and the table `sales.orders` with one snapshot."""

    server: Icecore
    config: Path
    snapshot_id: int

    @property
    def catalog(self) -> Catalog:
        return load_catalog("icecore", type="rest", uri=self.server.catalog_uri, warehouse="demo")

    def run(self, command: str, exit_code: int = 0) -> str:
        """The output of a page's command, sent to this server."""
        environment = clean_environment() | {
            "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
            "ICECORE_CONFIG": str(self.config),
            "ICECORE_DATA_DIR": str(self.server.data),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", command.replace(ADDRESS, self.server.uri)], capture_output=True, text=True, env=environment,
            timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        assert exit_code == done.returncode, done.stdout + done.stderr
        return done.stdout

    def sinks(self) -> dict[str, Any]:
        """What `icecore sinks` reports, by the sinks' names; a sink with an error makes it exit with 1."""
        return {sink["name"]: sink for sink in json.loads(self.run("icecore sinks --json || true"))}


@pytest.fixture(scope="module")
def documented(scratch: Path) -> Iterator[Documented]:
    sinks, _, kafka_and_rest = PAGES["sinks"].partition("[sinks.audit]")
    webhook = kafka_and_rest[kafka_and_rest.index("[sinks.contracts]") :]
    secret = scratch / "secret"
    secret.write_text("whsec_" + "A" * 32)
    rejecting = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Rejecting)
    threading.Thread(target=rejecting.serve_forever, daemon=True).start()
    entry_points = tomllib.loads(PAGES["entry point"])["project"]["entry-points"]["icecore.approval_hooks"]
    plugins = {name: value.partition(":")[2] for name, value in entry_points.items()}
    hooks = PAGES["hooks"].partition("[hooks.owners]")[0]
    with nats_server(scratch / "nats") as nats:
        config = scratch / "icecore.toml"
        config.write_text(
            sinks.replace("nats://nats-1:4222,nats://nats-2:4222", nats.url).replace('credentials_file = "/etc/icecore/nats.creds"\n', "")
            + webhook.replace("https://contracts.example/icecore", f"http://127.0.0.1:{rejecting.server_port}/").replace(
                "/run/secrets/contracts", str(secret)
            )
            + hooks
            + "".join(f'[hooks.{name}]\ntype = "plugin"\nplugin = "{name}"\n' for name in plugins)
        )
        environment = installed_plugins(scratch / "plugins", PAGES["plug in"], plugins)
        with icecore(scratch / "data", environment=environment | {"ICECORE_CONFIG": str(config)}) as server:
            catalog = load_catalog("icecore", type="rest", uri=server.catalog_uri, warehouse="demo")
            catalog.create_namespace("sales")
            rows = pa.table({"id": [1, 2]})
            table = catalog.create_table("sales.orders", schema=rows.schema)
            table.append(rows)
            snapshot = table.refresh().current_snapshot()
            assert snapshot is not None
            yield Documented(server, config, snapshot.snapshot_id)
    rejecting.shutdown()
    rejecting.server_close()


def _lines(name: str) -> list[str]:
    return [line.partition("  #")[0].strip() for line in PAGES[name].splitlines()]


def test_reading_events(documented: Documented) -> None:
    """A page, a long poll that a change ends, and a stream that continues."""
    page, poll, stream = _lines("read events")
    events = json.loads(documented.run(page))
    assert "io.icecore.warehouse.created.v1" == events["events"][0]["type"]
    later = threading.Timer(2, documented.catalog.create_namespace, ["later"])
    later.start()
    polled = json.loads(documented.run(poll))
    later.join()
    assert ["later"] == [event["subject"] for event in polled["events"]]
    assert "id: 1\n" in documented.run(stream.replace("curl ", "curl --max-time 2 "), exit_code=28)


def test_waiting_for_a_snapshot(documented: Documented) -> None:
    """The command of the page with this catalog's table and snapshot."""
    (command,) = _lines("wait for a snapshot")
    command = command.replace("namespace=town&table=people", "namespace=sales&table=orders")
    command = re.sub(r"snapshot-id=\d+", f"snapshot-id={documented.snapshot_id}", command)
    response = json.loads(documented.run(command))
    assert response["reached"]
    assert documented.snapshot_id == response["current-snapshot-id"]


def test_selecting_events_of_the_log(documented: Documented) -> None:
    """The table's events of this day; none of another day."""
    (command,) = _lines("log of a table")
    assert "" == documented.run(command).strip()
    today = datetime.now(UTC).date()
    events = documented.run(re.sub(r"\d{4}-\d\d-\d\dT", f"{today}T", command))
    assert 2 == len(events.splitlines())
    assert "sales.orders" in events


def test_a_report_that_an_auditor_keeps(documented: Documented, tmp_path: Path) -> None:
    """Under the day's name, with the members that the page names."""
    documented.run(f"cd {tmp_path}\n" + PAGES["verify report"])
    (report,) = tmp_path.glob("icecore-verify-????-??-??.json")
    kept = json.loads(report.read_text())
    assert (True, True) == (kept["ok"], kept["position"] > 0)
    assert re.fullmatch("[0-9a-f]{64}", kept["hash"])


def test_who_changed_what(documented: Documented) -> None:
    """The events of the table with the members of the page, and a drop."""
    first = json.loads(documented.run(PAGES["audit table"]).splitlines()[0])
    assert ("table.created.v1", "anonymous") == (first["topic"], first["actor"])
    members = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.+?) \|", (DOCS / "how-to" / "audit.md").read_text(), re.MULTILINE)))
    assert {"actor", "request-id", "causation-id"} <= set(members) <= set(first)
    documented.catalog.create_namespace("dropped")
    documented.catalog.drop_namespace("dropped")
    (drops,) = _lines("audit drops")
    assert "dropped" in [event["subject"] for event in json.loads(documented.run(drops))["events"]]


def test_time_travel(documented: Documented) -> None:
    """A namespace created later is missing."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    time.sleep(0.01)
    documented.catalog.create_namespace("future")
    program = re.sub(r"@[^\"]+", f"@{moment}", PAGES["time travel"]).replace(CATALOG_URI, documented.server.catalog_uri)
    scope: dict[str, Any] = {"load_catalog": load_catalog}
    exec(program, scope)
    listed = scope["catalog"].list_namespaces()
    assert ("sales",) in listed
    assert ("future",) not in listed


def test_sinks_are_replayed_and_skip(documented: Documented) -> None:
    """The commands of the page, on a sink that publishes and on one whose destination rejects an event."""
    rejected = wait_for(lambda: documented.sinks()["contracts"].get("blocked-position"), COMMAND_SECONDS_MAX)
    assert wait_for(lambda: documented.sinks()["lake"]["position"] >= rejected, COMMAND_SECONDS_MAX)
    assert "replay" in documented.run(PAGES["replay"].replace("--to 500", f"--to {rejected}"))
    assert "lake has no replay to cancel" in documented.run(PAGES["cancel replays"])
    documented.run(PAGES["skip"].replace("9128", str(rejected)))
    assert wait_for(lambda: documented.sinks()["contracts"]["position"] >= rejected, COMMAND_SECONDS_MAX)


def test_hooks_of_the_page(documented: Documented) -> None:
    """The plug-in of the page holds a drop, and the schema contract refuses a breach."""
    catalog = documented.catalog
    catalog.create_namespace("owned", {"owner": "Ada", "icecore.schema-contract": "no-breaking-changes"})
    table = catalog.create_table("owned.kept", schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(RESTError, match="tables with an owner are not dropped"):
        catalog.drop_table("owned.kept")
    with pytest.raises(CommitFailedException, match="column id is dropped"), table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("id")
    assert catalog.table_exists("owned.kept")


def test_settings_files(tmp_path: Path) -> None:
    """Every option of the examples is known."""
    file = tmp_path / "icecore.toml"
    # Keys of the top level come before tables.
    file.write_text("\n".join(PAGES[name] for name in ("settings file", "sinks", "hooks")))
    settings = load_settings(file)
    assert {"lake", "audit", "contracts"} == set(settings.sinks)
    assert {"contract", "owners"} == set(settings.hooks)
    assert 20_000 == settings.http.updates_max


@pytest.fixture
def dsn(documented: Documented) -> str:
    """Of the server's embedded Postgres, by its socket."""
    return make_conninfo(host=str((documented.server.data / "postgres" / "socket").resolve()), user="postgres", dbname="icecore")


def test_following_the_log(documented: Documented, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The loop yields events until it is cancelled."""
    code = compile(PAGES["follow the log"], "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def follow() -> None:
        async with asyncio.timeout(2):
            await eval(code, {"dsn": dsn})

    with pytest.raises(TimeoutError):
        asyncio.run(follow())
    assert "1 " in capsys.readouterr().out.splitlines()[0]


def test_the_eventsourcing_library(documented: Documented, dsn: str) -> None:
    """Its notification log is Icecore's log."""
    scope: dict[str, Any] = {"dsn": dsn}
    exec(PAGES["notification log"], scope)
    assert [1, 2, 3] == [event.id for event in scope["section"].items[:3]]


def test_size_of_the_log(documented: Documented, dsn: str) -> None:
    """The query of the page on sizing."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(PAGES["disk"].encode()).fetchone()
    assert row is not None
    assert all(row)
