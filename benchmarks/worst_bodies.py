"""Loads of a hot table while the most expensive permitted bodies and files are processed: how long loads wait for them."""

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import orjson

from benchmarks import work
from benchmarks.bench import HOT, NAMESPACE, Bench
from benchmarks.clients import ClientProcess
from benchmarks.findings import Finding, Json, at_most
from benchmarks.rest import RestCatalog
from benchmarks.seeding import write_metadata_file

SLOWEST_MS_MAX = 250
_TIMES = 5
_RATE = 200
_QUIET_SECONDS = 5.0
_SLICE_SECONDS = 0.5
_UPDATES = 20_000
_COLUMNS = 100_000
_PARTS_ADDED = 1_000
_FILE_SNAPSHOTS = 10_000


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("worst_bodies") as catalog:
        catalog.create_table(NAMESPACE, HOT)
        catalog.add_snapshots(NAMESPACE, HOT, 2)
        folder = bench.cluster.directory / "worst_bodies-files"
        requests: dict[str, Callable[[], None]] = {
            f"createTable of {_COLUMNS:,} columns": lambda: _create_wide(catalog),
            f"commit of {_UPDATES:,} add-snapshot": lambda: _commit(catalog, _snapshots),
            f"commit of {_PARTS_ADDED:,} add-schema of 64 columns": lambda: _commit(catalog, _schemas),
            f"commit of {_UPDATES:,} set-properties": lambda: _commit(catalog, _properties),
            f"register of {_FILE_SNAPSHOTS:,} snapshots": lambda: catalog.register(
                NAMESPACE, _name(), write_metadata_file(folder / _name(), _FILE_SNAPSHOTS)
            ),
        }
        job: Json = {
            **{"kind": "reads", "address": catalog.address, "headers": catalog.headers, "connections": 4, "rate": _RATE},
            "paths": [catalog.table_path(NAMESPACE, HOT)],
        }
        quiet = bench.client.do({**job, "seconds": _QUIET_SECONDS})
        found = {what: _beside(bench.client, job, request) for what, request in requests.items()}
    details = {"quiet_p99_ms": round(quiet["p99_ms"], 1), "quiet_max_ms": round(quiet["max_ms"], 1)}
    return [
        Finding(f"slowest load during a {what}", slowest, "ms", at_most(SLOWEST_MS_MAX, "ms"), details={**details, "p99_ms": round(p99, 1)})
        for what, (slowest, p99) in found.items()
    ]


def _beside(client: ClientProcess, job: Json, request: Callable[[], None]) -> tuple[float, float]:
    """The slowest load, and the worst p99 of a slice, while the request is sent repeatedly."""
    slices: list[Json] = []
    with ThreadPoolExecutor(1) as beside:
        for _ in range(_TIMES):
            sent = beside.submit(request)
            while not sent.done():
                slices.append(client.do({**job, "seconds": _SLICE_SECONDS}))
            sent.result()
    return max(each["max_ms"] for each in slices), max(each["p99_ms"] for each in slices)


def _name() -> str:
    return f"t_{secrets.token_hex(4)}"


def _columns(count: int, first_id: int = 1, prefix: str = "c") -> list[Json]:
    return [{"id": first_id + number, "name": f"{prefix}{number}", "type": "int", "required": False} for number in range(count)]


def _create_wide(catalog: RestCatalog) -> None:
    body = orjson.dumps({"name": _name(), "schema": {"type": "struct", "fields": _columns(_COLUMNS)}})
    catalog.call("POST", f"{catalog.prefix}/namespaces/{NAMESPACE}/tables", body)


def _commit(catalog: RestCatalog, updates: Callable[[str], list[Json]]) -> None:
    name = _name()
    location = catalog.create_table(NAMESPACE, name)["location"]
    catalog.commit(NAMESPACE, name, orjson.dumps({"requirements": [], "updates": updates(location)}))


def _snapshots(location: str) -> list[Json]:
    snapshots = (work.snapshot(location, number, number, None) for number in range(1, _UPDATES + 1))
    return [{"action": "add-snapshot", "snapshot": snapshot} for snapshot in snapshots]


def _schemas(_: str) -> list[Json]:
    return [
        {"action": "add-schema", "schema": {"type": "struct", "fields": _columns(64, 1, f"s{number}_")}} for number in range(_PARTS_ADDED)
    ]


def _properties(_: str) -> list[Json]:
    return [{"action": "set-properties", "updates": {f"key.{number}": "value"}} for number in range(_UPDATES)]
