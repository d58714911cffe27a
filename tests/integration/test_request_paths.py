"""The files that a commit, a cached load and a published event pass through are those of docs/reference/request-paths.md, in that order."""

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.api.server import build_runner
from icecore.commands.namespaces.create_namespace import CreateNamespace, create_namespace
from icecore.compose import Application
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.publishers.event_filter import EventFilter
from icecore.publishers.publisher import Publisher
from icecore.publishers.sink_settings import StandardOutputSink
from icecore.publishers.standard_output import StandardOutput
from tests.fixtures.call_trace import PART, CallTrace, traced_calls
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.rest_client import SCHEMA
from tests.servers.paths import ROOT

DOCUMENT = ROOT / "docs" / "reference" / "request-paths.md"
PUBLISHING = "publishing"
# Background tasks, independent of requests.
BACKGROUND = frozenset({"database/outage_log.py", "database/connection_watchdog.py", "api/connections.py"})

# Limits on the calls between files.
COMMIT_CALLS_MAX, LOAD_CALLS_MAX = 180, 60


@pytest.fixture
async def catalog(database: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with opened_catalog(database, tmp_path / "warehouse") as opened:
        yield opened


@pytest.fixture
async def url(catalog: Application) -> AsyncIterator[str]:
    """A catalog served on this event loop."""
    runner = build_runner(catalog.app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/catalog/v1/demo/namespaces"
    await runner.cleanup()


async def _post(session: aiohttp.ClientSession, url: str, body: Any) -> None:
    async with session.post(url, json=body) as response:
        assert response.status == 200, await response.text()
        await response.read()


async def _get(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url) as response:
        assert response.status == 200
        await response.read()


def _commit(value: int) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": str(value)}}]}


def _section(title: str, trace: CallTrace) -> str:
    """As in the document. The rules of the table format are one line for several files."""
    files = ["domain/metadata/" if file.startswith("domain/metadata/") else file for file in trace.files if file not in BACKGROUND]
    shown = list(dict.fromkeys(files))
    count = f"{len(shown)} files (`domain/metadata/` counts as one).\n\n"
    return f"## {title}\n\n{count}" + "".join(f"{number}. `{file}`\n" for number, file in enumerate(shown, start=1))


async def _traced(session: aiohttp.ClientSession, table: str, value: int) -> tuple[CallTrace, CallTrace]:
    """A commit and a load without other activity."""
    # Background reads for earlier requests are done by then.
    await asyncio.sleep(0.2)
    with traced_calls() as commit:
        await _post(session, table, _commit(value))
    await _get(session, table)
    await asyncio.sleep(0.2)
    with traced_calls() as load:
        await _get(session, table)
    return commit, load


@asynccontextmanager
async def _publisher(dsn: str, settings: StandardOutputSink) -> AsyncIterator[None]:
    """One sink's publisher, waiting for events."""
    publisher = Publisher(
        dsn,
        "printed",
        lambda: StandardOutput("printed", settings, "http://here"),
        event_filter=EventFilter(),
        dialect="icecore",
        start="now",
    )
    stop = asyncio.Event()
    its_own = contextvars.copy_context()
    its_own.run(PART.set, PUBLISHING)
    publishing = asyncio.create_task(publisher.run(stop), context=its_own)
    # It is the leader by then.
    await asyncio.sleep(1)
    yield
    stop.set()
    await publishing


async def _published(catalog: Application, name: str) -> CallTrace:
    """One event published to the sink, without the commit."""
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    await asyncio.sleep(0.2)
    with traced_calls(PUBLISHING) as trace:
        created = CreateNamespace(NamespaceIdentifier((name,)), {})
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, created)
        await asyncio.sleep(1)
    return trace


async def test_the_document_names_the_files_in_their_order(database: str, catalog: Application, url: str) -> None:
    """ICECORE_TEST_RECORD=1 writes the document."""
    introduction = (
        "# The path of a request\n\nThis page is generated. It lists the source files that run for a commit, for a load and for a "
        "published event, in the order in which each is first\ncalled. Use it to read the code of one request from beginning to end. "
        "`tests/integration/test_request_paths.py` traces the calls and compares them with this\npage; "
        "`ICECORE_TEST_RECORD=1` writes it again. SQL is not listed: a commit ends in the function `icecore.append` "
        "(`migrations/functions/append.sql`).\n\n"
    )
    table, expected = f"{url}/n/tables/t", DOCUMENT.read_text(encoding="utf-8")
    async with aiohttp.ClientSession() as session:
        await _post(session, url, {"namespace": ["n"]})
        await _post(session, f"{url}/n/tables", {"name": "t", "schema": SCHEMA})
        for number in range(3):
            await _post(session, table, _commit(number))
            await _get(session, table)
        # On a busy machine, background work may be included.
        for number in range(5):
            commit, load = await _traced(session, table, 10 + number)
            warm, kept = _section("A commit with warm caches", commit), _section("A cached load", load)
            async with _publisher(database, StandardOutputSink(type="stdout")):
                published = _section("An event to a sink", await _published(catalog, f"published{number}"))
            text = introduction + warm + "\n" + kept + "\n" + published
            within = commit.switches(BACKGROUND) <= COMMIT_CALLS_MAX and load.switches(BACKGROUND) <= LOAD_CALLS_MAX
            if text == expected and within:
                break
    if os.environ.get("ICECORE_TEST_RECORD"):
        DOCUMENT.write_text(text, encoding="utf-8")
    print(commit.switches(BACKGROUND), load.switches(BACKGROUND))
    assert text == DOCUMENT.read_text(encoding="utf-8")
    assert commit.switches(BACKGROUND) <= COMMIT_CALLS_MAX
    assert load.switches(BACKGROUND) <= LOAD_CALLS_MAX
