"""Listing 100,000 soft-deleted tables, the first page against page 900; memory of the worker that purges 10,000 files, against 100."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import psycopg

from benchmarks import machine, seeding
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.create_and_list import LATE_PAGE, PAGE_TABLES, TABLES
from benchmarks.findings import Finding, at_most, of_ratio, within
from benchmarks.load_hot import summary
from benchmarks.memory import MEBIBYTE
from benchmarks.servers import Service
from tests.fixtures.snapshots import appended, data_files

FILES = 10_000
_FILES_FEW = 100
GROWTH_GOAL = at_most(1.25)
_CONNECTIONS = 4
_PURGE_SECONDS_MAX = 300
_OPEN_PURGES = "select count(*) from icecore.tasks where queue = 'tabular_purge' and to_position is null"


def run(bench: Bench) -> list[Finding]:
    return [_list(bench), _purge(bench)]


def _list(bench: Bench) -> Finding:
    dsn = bench.cluster.database("soft_deleted")
    seeding.make_warehouse(dsn, seeding.NOWHERE)
    seeding.append_tables(dsn, NAMESPACE, TABLES, with_files=False, soft_deleted=True)
    with bench.served("soft_deleted") as service, contextlib.closing(service.catalog()) as catalog:
        path = f"/management/v1/warehouse/{_warehouse_id(service)}/deleted-tabulars?pageSize={PAGE_TABLES}"
        token, seen = "", set[str]()
        for _ in range(LATE_PAGE - 1):
            page = catalog.call("GET", f"{path}&pageToken={token}" if token else path)
            seen.update(each["id"] for each in page["tabulars"])
            token = page["next-page-token"]
        assert len(seen) == PAGE_TABLES * (LATE_PAGE - 1), "pages overlap"
        blocks = alternate(
            bench.rounds // 2,
            {
                "late": lambda: bench.read(catalog.address, paths=[f"{path}&pageToken={token}"], connections=_CONNECTIONS),
                "first": lambda: bench.read(catalog.address, paths=[path], connections=_CONNECTIONS),
            },
        )
    found = ratio([block["p50_ms"] for block in blocks["late"]], [block["p50_ms"] for block in blocks["first"]])
    details = {"late": summary(blocks["late"]), "first": summary(blocks["first"]), "page_tables": PAGE_TABLES}
    return of_ratio(f"soft-deleted tables p50, page {LATE_PAGE} beside page 1", found, within(0.2), details)


def _purge(bench: Bench) -> Finding:
    """Each in a worker of its own, because a process keeps the memory that it once had."""
    most = {count: _peak_of_purge(bench, count) for count in (_FILES_FEW, FILES)}
    details = {f"mb_{count}_files": round(peak / MEBIBYTE) for count, peak in most.items()}
    return Finding(
        f"peak memory of a purge of {FILES:,} files beside {_FILES_FEW}", most[FILES] / most[_FILES_FEW], "×", GROWTH_GOAL, details=details
    )


def _peak_of_purge(bench: Bench, count: int) -> int:
    """The most that the worker and its processes had resident together, in bytes."""
    dsn, name = bench.local_database("purged"), f"files{count}"
    with (
        bench.served("purged") as service,
        contextlib.closing(service.catalog()) as catalog,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        catalog.create_namespace(NAMESPACE)
        folder = Path(catalog.create_table(NAMESPACE, name)["location"].removeprefix("file://"))
        updates = appended(folder, data_files(folder / "data", count))
        catalog.commit(NAMESPACE, name, orjson.dumps({"requirements": [], "updates": updates}))
        catalog.call("DELETE", f"{catalog.table_path(NAMESPACE, name)}?purgeRequested=true")
        until, peak = time.monotonic() + _PURGE_SECONDS_MAX, 0
        while connection.execute(_OPEN_PURGES).fetchone() != (0,):
            assert time.monotonic() < until, "the purge does not end"
            peak = max(peak, sum(_resident(each) for each in _below(service.process_id)))
            time.sleep(0.005)
        assert not any(folder.rglob("*.parquet")), "files are left"
    return peak


def _below(process_id: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{process_id}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _below(child)


def _resident(process_id: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, KeyError):
        return machine.memory_bytes(process_id)[0]
    return 0


def _warehouse_id(service: Service) -> str:
    with psycopg.connect(service.dsn) as connection:
        return str(connection.execute("select warehouse_id from icecore.warehouses").fetchall()[0][0])
