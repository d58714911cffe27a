"""Appends by the eventsourcing library's own recorder, beside ours on the same Postgres (docs/decisions/0014)."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import cast
from uuid import UUID

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresFactory
from eventsourcing.utils import Environment
from psycopg.conninfo import conninfo_to_dict
from uuid_utils.compat import uuid7

from benchmarks.bench import WRITERS, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, of_ratio
from icecore.access.request_context import ANONYMOUS, RequestContext
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.execution.committer import Committer
from icecore.domain.events import NamespaceCreated, NamespacePropertiesChanged
from icecore.domain.namespace import NamespaceState
from icecore.domain.project import PROJECT_ID_DEFAULT

_STATE = NamespacePropertiesChanged({"key": "x" * 900}, []).encode()


def run(bench: Bench) -> list[Finding]:
    dsn = bench.local_database("library")
    with closing(_library_factory(dsn)) as factory:
        recorder = cast(PostgresApplicationRecorder, factory.application_recorder())
        findings = []
        for writers in (1, WRITERS):
            blocks: dict[str, Callable[[], float]] = {
                "library": partial(_library_rate, recorder, writers, bench.block_seconds),
                "ours": partial(_our_rate, dsn, writers, bench.block_seconds),
            }
            rates = alternate(bench.rounds, blocks)
            details = {name: round(sorted(found)[len(found) // 2]) for name, found in rates.items()}
            what = f"events of 0.9 KB, {writers} at once, appended by the library's recorder against ours with rows and hashes"
            findings.append(of_ratio(what, ratio(rates["library"], rates["ours"]), None, details))
    return findings


def _library_factory(dsn: str) -> PostgresFactory:
    place = conninfo_to_dict(dsn)
    given = {f"POSTGRES_{name.upper()}": str(place.get(name) or "") for name in ("dbname", "host", "user", "password")}
    given |= {"POSTGRES_PORT": str(place.get("port") or 5432), "POSTGRES_POOL_SIZE": str(WRITERS)}
    return PostgresFactory(Environment("benchmark", given))


def _library_rate(recorder: PostgresApplicationRecorder, writers: int, seconds: float) -> float:
    def write(_: int) -> int:
        stream, version = uuid7(), 0
        while time.monotonic() < end:
            version += 1
            recorder.insert_events([StoredEvent(stream, version, NamespacePropertiesChanged.TOPIC, _STATE)])
        return version

    with ThreadPoolExecutor(writers) as threads:
        end = time.monotonic() + seconds
        return sum(threads.map(write, range(writers))) / seconds


def _our_rate(dsn: str, writers: int, seconds: float) -> float:
    return asyncio.run(_appended(dsn, writers, seconds))


async def _appended(dsn: str, writers: int, seconds: float) -> float:
    """Each writer changes its own namespace, through the same committer as requests."""
    committer = Committer(dsn)
    committer.start()
    try:
        states = [await _namespace(committer) for _ in range(writers)]
        end = time.monotonic() + seconds
        return sum(await asyncio.gather(*(_write(committer, state, end) for state in states))) / seconds
    finally:
        await committer.close()


async def _namespace(committer: Committer) -> NamespaceState:
    append_request = AppendRequest(_context())
    name = str(uuid7())
    warehouse_id, location = UUID(int=1), f"file:///warehouse/{name}"
    created = NamespaceCreated(warehouse_id, name, name, f"local|{location}/", {"location": location})
    state = append_request.add(uuid7(), warehouse_id, None, [created])
    assert "appended" == (await committer.submit(append_request)).outcome
    return cast(NamespaceState, state)


async def _write(committer: Committer, state: NamespaceState, end: float) -> int:
    written = 0
    while time.monotonic() < end:
        append_request = AppendRequest(_context())
        after = append_request.add(state.id, state.warehouse_id, state, [NamespacePropertiesChanged({"key": "x" * 900}, [])])
        assert "appended" == (await committer.submit(append_request)).outcome
        state, written = cast(NamespaceState, after), written + 1
    return written


def _context() -> RequestContext:
    return RequestContext(str(uuid7()), PROJECT_ID_DEFAULT, ANONYMOUS, "updateProperties")
