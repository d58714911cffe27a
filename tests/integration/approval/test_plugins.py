"""Installed plug-ins: they are found by entry point, get their options, and block only themselves."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures.catalog import opened_catalog
from tests.fixtures.plugins import installed_plugins
from tests.fixtures.rest_client import RestResponse, set_properties
from tests.fixtures.waiting import wait_for
from tests.integration.approval.judging import Approver
from tests.integration.approval.program import serving

# Waits like code that blocks its thread, in a plain function.
PLUGINS = """
import os, time
from icecore.approval.contract import ALLOW, Refuse

class Waits:
    def __init__(self, options):
        self.folder = options["folder"]

    def review(self, change):
        if change.operation != "updateTable":
            return ALLOW
        open(os.path.join(self.folder, "asked"), "w").close()
        while not os.path.exists(os.path.join(self.folder, "go on")):
            time.sleep(0.01)
        return ALLOW

class Owners:
    def __init__(self, options):
        pass

    async def review(self, change):
        for each in change.objects:
            if each.kind == "table" and each.after is None:
                declared = await change.namespace_properties(each.name_before[:-1])
                return Refuse(f"ask {declared[-1]['owner']}")
        return ALLOW
"""


@pytest.fixture
def plugins(database: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a server with the installed plug-ins."""

    async def make_warehouse() -> None:
        async with opened_catalog(database, tmp_path / "warehouse"):
            pass

    asyncio.run(make_warehouse())
    return installed_plugins(tmp_path / "site", PLUGINS, {"waits": "Waits", "owners": "Owners"})


class Asking(threading.Thread):
    """A commit in flight by a separate client."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.response: RestResponse | None = None

    def run(self) -> None:
        client = Approver(self._url)
        self.response = client.commit(["a"], "t", set_properties(k="v"))
        client.close()


@contextmanager
def waiting(database: str, directory: Path, plugins: dict[str, str], *, timeout_seconds: str) -> Iterator[tuple[str, Approver]]:
    """URL and client of a server with the blocking plug-in. The table `a.t` exists."""
    hook = {"TYPE": "plugin", "PLUGIN": "waits", "TIMEOUT_SECONDS": timeout_seconds, "OPTIONS": f'{{"folder": "{directory}"}}'}
    environment = plugins | {f"ICECORE_HOOKS__SLOW__{name}": value for name, value in hook.items()}
    with serving(database, directory / "server.log", **environment) as (url, _):
        client = Approver(url)
        client.create_namespace("a")
        client.create_table(["a"], "t")
        yield url, client
        client.close()


@pytest.mark.timeout(120)
def test_a_blocking_plugin_delays_no_other_request(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """It continues only after other requests were answered, which fails if it blocks the server's event loop."""
    with waiting(database, tmp_path, plugins, timeout_seconds="60") as (url, client):
        asking = Asking(url)
        asking.start()
        wait_for((tmp_path / "asked").exists)
        assert 200 == client.load_table(["a"], "t").status
        assert 200 == client.call("GET", "/namespaces").status
        (tmp_path / "go on").touch()
        asking.join()
        assert asking.response is not None
        assert 200 == asking.response.status


@pytest.mark.timeout(120)
def test_a_plugin_that_blocks_runs_out_of_its_time(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """503 according to its `on_failure`, as for one that sleeps asynchronously. Once it continues, changes succeed."""
    with waiting(database, tmp_path, plugins, timeout_seconds="0.2") as (_, client):
        for _ in range(2):
            assert (503, "ApprovalUnavailableException") == client.commit(["a"], "t", set_properties(k="v")).error
        (tmp_path / "go on").touch()
        while client.commit(["a"], "t", set_properties(k="v")).status != 200:
            pass


@pytest.mark.timeout(120)
def test_a_plugin_reads_what_namespaces_declare(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """From its own thread, with the server's connections."""
    hook = {"TYPE": "plugin", "PLUGIN": "owners"}
    environment = plugins | {f"ICECORE_HOOKS__OWNERS__{name}": value for name, value in hook.items()}
    with serving(database, tmp_path / "server.log", **environment) as (url, _):
        client = Approver(url)
        client.create_namespace("a", owner="Ada")
        client.create_table(["a"], "t")
        refused = client.call("DELETE", "/namespaces/a/tables/t")
        assert (409, "ChangeRefusedException") == refused.error
        assert "ask Ada" in refused.message
        client.close()
