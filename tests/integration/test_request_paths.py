"""The files a warm commit, a cached load and one event to a sink pass through: few enough to be read one after the other."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from api.server import build_runner
from tests.fixtures.call_trace import CallTrace, traced_calls
from tests.fixtures.catalog import opened_catalog
from tests.fixtures.rest_client import SCHEMA

COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


@pytest.fixture
async def url(database: str, tmp_path: Path) -> AsyncIterator[str]:
    """A catalog on this event loop, with the table `n.t`."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        runner = build_runner(catalog.app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/catalog/v1/demo/namespaces"
        await runner.cleanup()


async def _post(session: aiohttp.ClientSession, url: str, body: Any) -> None:
    async with session.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()


def _show(name: str, trace: CallTrace) -> None:
    print(f"{name}: {len(trace.files)} files, {trace.switches} switches")
    print("\n".join(f"  {file}" for file in trace.files))


async def test_of_a_commit_and_a_load(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        await _post(session, url, {"namespace": ["n"]})
        await _post(session, f"{url}/n/tables", {"name": "t", "schema": SCHEMA})
        for _ in range(3):
            await _post(session, f"{url}/n/tables/t", COMMIT)
            async with session.get(f"{url}/n/tables/t") as answer:
                await answer.read()
        with traced_calls() as commit:
            await _post(session, f"{url}/n/tables/t", {**COMMIT, "updates": [{"action": "set-properties", "updates": {"a": "c"}}]})
        async with session.get(f"{url}/n/tables/t") as answer:
            await answer.read()
        with traced_calls() as load:
            async with session.get(f"{url}/n/tables/t") as answer:
                await answer.read()
    _show("commit", commit)
    _show("load", load)
    for call in commit.calls:
        print(*call)
    for call in load.calls:
        print("L", *call)
