"""Plug-ins as their authors install them: found by entry point, options handed over, and blocking nobody but themselves."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures.catalog import opened_catalog
from tests.fixtures.plugins import installed_plugins
from tests.fixtures.rest_client import RestAnswer, set_properties
from tests.integration.approval.judging import Approver
from tests.integration.approval.program import serving

# Waits as code does that knows nothing of event loops; answers with a plain function.
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
    """The environment of a server beside which the package of the plug-ins is installed."""

    async def make_warehouse() -> None:
        async with opened_catalog(database, tmp_path / "warehouse"):
            pass

    asyncio.run(make_warehouse())
    return installed_plugins(tmp_path / "site", PLUGINS, {"waits": "Waits", "owners": "Owners"})


class Asking(threading.Thread):
    """A commit on its way, by a client of its own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.answer: RestAnswer | None = None

    def run(self) -> None:
        client = Approver(self._url)
        self.answer = client.commit(["a"], "t", set_properties(k="v"))
        client.close()


def until_there(path: Path) -> None:
    """The test's own time limit ends it."""
    waiting = threading.Event()
    while not path.exists():
        waiting.wait(0.01)


@contextmanager
def waiting(database: str, directory: Path, plugins: dict[str, str], *, timeout_seconds: str) -> Iterator[tuple[str, Approver]]:
    """Address and client of a server that asks the plug-in which waits; the table `a.t` is there."""
    hook = {"TYPE": "plugin", "PLUGIN": "waits", "TIMEOUT_SECONDS": timeout_seconds, "OPTIONS": f'{{"folder": "{directory}"}}'}
    environment = plugins | {f"ICECORE_HOOKS__SLOW__{name}": value for name, value in hook.items()}
    with serving(database, directory / "server.log", **environment) as (url, _):
        client = Approver(url)
        client.create_namespace("a")
        client.create_table(["a"], "t")
        yield url, client
        client.close()


@pytest.mark.timeout(120)
def test_a_plugin_that_blocks_holds_up_nobody_else(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """It goes on only after others were answered, which they could not be if it stood on the server's event loop."""
    with waiting(database, tmp_path, plugins, timeout_seconds="60") as (url, client):
        asking = Asking(url)
        asking.start()
        until_there(tmp_path / "asked")
        assert 200 == client.load_table(["a"], "t").status
        assert 200 == client.call("GET", "/namespaces").status
        (tmp_path / "go on").touch()
        asking.join()
        assert asking.answer is not None
        assert 200 == asking.answer.status


@pytest.mark.timeout(120)
def test_a_plugin_that_blocks_runs_out_of_its_time(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """503 by its policy, as if it slept properly; once it goes on, changes do."""
    with waiting(database, tmp_path, plugins, timeout_seconds="0.2") as (_, client):
        for _ in range(2):
            assert (503, "ApprovalUnavailableException") == client.commit(["a"], "t", set_properties(k="v")).error
        (tmp_path / "go on").touch()
        while client.commit(["a"], "t", set_properties(k="v")).status != 200:
            pass


@pytest.mark.timeout(120)
def test_a_plugin_reads_what_namespaces_declare(database: str, tmp_path: Path, plugins: dict[str, str]) -> None:
    """From its own thread, over the server's connections."""
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
