"""Icecore beside other Iceberg REST servers on one Debian Postgres with default settings: `python -m benchmarks.peers [--uri NAME=URI
…]`.

All servers run at once and are measured in turns. Icecore and Iceberg's reference server (a JdbcCatalog) use local files. Nessie writes
only to object stores, so it uses an S3 server, and Icecore is also measured on the same S3 server.
"""

import argparse
import contextlib
import functools
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from benchmarks import machine, report, seeding
from benchmarks.bench import HOT, NAMESPACE, READ_CONNECTIONS, Bench
from benchmarks.blocks import alternate
from benchmarks.clients import ClientProcess
from benchmarks.commit_distinct import append_to_new_tables
from benchmarks.findings import Json
from benchmarks.rest import RefusedError, RestCatalog
from benchmarks.servers import DEBIAN, Cluster, cluster, our_server
from tests.servers.iceberg import iceberg_server
from tests.servers.moto import S3, moto_s3
from tests.servers.nessie import WAREHOUSE, jdbc_url, nessie_server
from tests.servers.paths import ToolMissingError
from tests.servers.processes import ServerNotReadyError

ROUNDS = 10
BLOCK_SECONDS = 1.0
LISTED = "listed"
LISTED_TABLES = 100
SHARED = "shared"
SHARED_CLIENTS = 8
# The initial snapshots, which it keeps.
SHARED_SNAPSHOTS = 20
LISTING_CONNECTIONS = 4
# As for the others: our server also logs a line for each change.
SHIPPED_LOG = {"ICECORE_LOG_LEVEL": "info"}
_LARGE_FIGURE = 100


class Started(NamedTuple):
    """A running server, and its process if it is on this machine."""

    catalog: RestCatalog
    process_id: int | None


@contextlib.contextmanager
def _icecore(on: Cluster) -> Iterator[Started]:
    dsn = on.database("icecore")
    seeding.make_warehouse(dsn, seeding.local_profile(on.folder("icecore-files")))
    with our_server(on, dsn, settings=SHIPPED_LOG) as service, contextlib.closing(service.catalog()) as catalog:
        yield Started(catalog, service.process_id)


@contextlib.contextmanager
def _iceberg(on: Cluster) -> Iterator[Started]:
    uri = f"uri={jdbc_url(on.database('iceberg', migrated=False))}"
    with iceberg_server(on.folder("iceberg"), properties=(uri,)) as server, contextlib.closing(RestCatalog(server.uri)) as catalog:
        yield Started(catalog, server.process_id)


@contextlib.contextmanager
def _icecore_on_s3(on: Cluster, s3: Callable[[], S3]) -> Iterator[Started]:
    dsn = on.database("icecore_s3")
    seeding.make_warehouse(dsn, s3().storage_profile, s3().storage_credential)
    with our_server(on, dsn, settings=SHIPPED_LOG) as service, contextlib.closing(service.catalog()) as catalog:
        yield Started(catalog, service.process_id)


@contextlib.contextmanager
def _nessie(on: Cluster, s3: Callable[[], S3]) -> Iterator[Started]:
    dsn = on.database("nessie", migrated=False)
    with nessie_server(on.folder("nessie"), dsn, s3()) as server, contextlib.closing(RestCatalog(server.uri, WAREHOUSE)) as catalog:
        yield Started(catalog, server.process_id)


@contextlib.contextmanager
def _other(uri: str, warehouse: str | None, token: str | None) -> Iterator[Started]:
    with contextlib.closing(RestCatalog(uri, warehouse, token)) as catalog:
        yield Started(catalog, None)


def _load(bench: Bench, catalog: RestCatalog) -> Json:
    return _reads(bench, catalog, catalog.table_path(NAMESPACE, HOT), READ_CONNECTIONS)


def _list(bench: Bench, catalog: RestCatalog) -> Json:
    return _reads(bench, catalog, catalog.list_path(LISTED, LISTED_TABLES), LISTING_CONNECTIONS)


def _reads(bench: Bench, catalog: RestCatalog, path: str, connections: int) -> Json:
    job = {"kind": "reads", "address": catalog.address, "paths": [path], "headers": catalog.headers, "connections": connections}
    return bench.client.do({**job, "seconds": bench.block_seconds})


def _append_to_shared(bench: Bench, catalog: RestCatalog) -> Json:
    return bench.write(catalog, "append_shared", clients=SHARED_CLIENTS, table=SHARED, snapshots_max=SHARED_SNAPSHOTS)


def _create(bench: Bench, catalog: RestCatalog) -> Json:
    return bench.write(catalog, "create", stem=secrets.token_hex(4))


# The operations, as named in the table.
WORKS: dict[str, Callable[[Bench, RestCatalog], Json]] = {
    f"load one table, {READ_CONNECTIONS} connections": _load,
    "commit to tables of their own, 32 clients": append_to_new_tables,
    f"commit to one table, again on 409, {SHARED_CLIENTS} clients": _append_to_shared,
    "create tables, 32 clients": _create,
    f"list {LISTED_TABLES} tables, {LISTING_CONNECTIONS} connections": _list,
}


@dataclass(slots=True)
class Peer:
    """A server of the table with its results by operation and its memory at the end, or why it is not measured."""

    name: str
    start: Callable[[], AbstractContextManager[Started]]
    started: Started | None = None
    absent: str | None = None
    blocks: dict[str, list[Json]] = field(default_factory=dict)
    memory_bytes: int | None = None

    def block(self, bench: Bench, work: str) -> Json:
        """One block. If the server closes a connection or refuses a prerequisite of the block, the result is zero done and one failed."""
        assert self.started is not None
        try:
            done = WORKS[work](bench, self.started.catalog)
            return {key: value for key, value in done.items() if not isinstance(value, list)}
        except (RefusedError, RuntimeError, OSError) as error:
            print(f"    {self.name}, {work}: {_first_line(error)}", flush=True)
            return {"rate": 0.0, "statuses": {"none": 1}}

    def responses(self, wanted: Callable[[str], bool]) -> int:
        """How many responses had this status; `none` counts requests without a response."""
        return sum(
            count
            for blocks in self.blocks.values()
            for block in blocks
            for status, count in {**block["statuses"], "none": block["statuses"].get("none", 0) + block.get("lost", 0)}.items()
            if wanted(status)
        )


def main() -> None:
    given = _arguments()
    # On SIGTERM, exits normally, so that servers and folders are removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with contextlib.ExitStack() as opened:
        on = opened.enter_context(cluster(DEBIAN))
        client = ClientProcess()
        opened.callback(client.close)
        bench = Bench(on, client, False, given.rounds, given.block_seconds)
        peers = _peers(given, on, opened)
        for peer in peers:
            _start(peer, opened)
        up = {peer.name: peer for peer in peers if peer.started is not None}
        setting = {
            **machine.setting(),
            "postgres": f"{on.version()} ({DEBIAN})",
            "form": "peers",
            "measured": ", ".join(peer.name for peer in peers),
            "rounds": given.rounds,
            "block_seconds": given.block_seconds,
            "busy_before": {"all": round(machine.busy_share(), 2)},
        }
        began = time.monotonic()
        if up:
            _measure(bench, up)
        setting["seconds"] = round(time.monotonic() - began)
    results = {peer.name: {"absent": peer.absent, "memory_bytes": peer.memory_bytes, "works": peer.blocks} for peer in peers}
    written = report.write_page(setting, table(peers), results, partial=given.only is not None or given.rounds < ROUNDS)
    print(f"\n{table(peers)}\n\n{written}")
    absent = [f"{peer.name}: {peer.absent}" for peer in peers if peer.absent is not None]
    if absent:
        sys.exit("Not measured:\n" + "\n".join(absent))


def _measure(bench: Bench, up: dict[str, Peer]) -> None:
    """Runs the blocks of each operation and measures the memory after them."""
    for work in WORKS:
        print(work, flush=True)
        turns = {name: functools.partial(peer.block, bench, work) for name, peer in up.items()}
        # One block of each is not counted, because Java compiles frequently executed code.
        alternate(1, turns)
        for name, blocks in alternate(bench.rounds, turns).items():
            up[name].blocks[work] = blocks
    for peer in up.values():
        if peer.started is not None and peer.started.process_id is not None:
            peer.memory_bytes = machine.memory_bytes(peer.started.process_id)[0]


def _peers(given: argparse.Namespace, on: Cluster, opened: contextlib.ExitStack) -> list[Peer]:
    s3 = functools.cache(lambda: opened.enter_context(moto_s3(on.folder("s3"))))
    ours = {
        "icecore": lambda: _icecore(on),
        "iceberg": lambda: _iceberg(on),
        "icecore-s3": lambda: _icecore_on_s3(on, s3),
        "nessie": lambda: _nessie(on, s3),
    }
    wanted = [Peer(name, start) for name, start in ours.items() if given.only is None or name in given.only]
    others = [Peer(name, functools.partial(_other, uri, given.warehouse, given.token)) for name, uri in given.uri]
    return wanted + others


def _start(peer: Peer, opened: contextlib.ExitStack) -> None:
    """Starts it and creates what the operations need. Records the error if that fails."""
    print(f"starting {peer.name}", flush=True)
    try:
        started = opened.enter_context(peer.start())
        catalog = started.catalog
        for namespace in (NAMESPACE, LISTED):
            catalog.create_namespace(namespace)
        for table_name, snapshots in ((HOT, 2), (SHARED, SHARED_SNAPSHOTS)):
            catalog.create_table(NAMESPACE, table_name)
            catalog.add_snapshots(NAMESPACE, table_name, snapshots)
        for number in range(LISTED_TABLES):
            catalog.create_table(LISTED, f"t{number}")
    except (ToolMissingError, ServerNotReadyError, RefusedError, OSError, LookupError, ValueError) as error:
        # The last two: the response is not that of a catalog.
        peer.absent = _first_line(error)
        return
    peer.started = started


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]


def table(peers: list[Peer]) -> str:
    """The results as one Markdown table: medians of the blocks, 409s as refused, all other errors as failed."""
    rows = [[work, *(_cell(peer, work) for peer in peers)] for work in WORKS]
    rows.append(["refused (409)", *(_count(peer, lambda status: status == "409") for peer in peers)])
    rows.append(["failed", *(_count(peer, lambda status: status not in ("200", "204", "409")) for peer in peers)])
    rows.append(["resident at the end", *("–" if peer.memory_bytes is None else f"{peer.memory_bytes / 2**20:,.0f} MiB" for peer in peers)])
    head = ["a second; p50, p99 in ms", *(peer.name for peer in peers)]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    absent = [f"\n{peer.name} is not measured: {peer.absent}" for peer in peers if peer.absent is not None]
    return "\n".join([*lines, *absent])


def _cell(peer: Peer, work: str) -> str:
    blocks = peer.blocks.get(work)
    if not blocks:
        return "–"
    rate = f"{median(block['rate'] for block in blocks):,.0f}"
    timed = [block for block in blocks if "p50_ms" in block]
    return rate if not timed else f"{rate}; {_median(timed, 'p50_ms')}, {_median(timed, 'p99_ms')}"


def _median(blocks: list[Json], key: str) -> str:
    return f"{value:,.0f}" if (value := median(block[key] for block in blocks)) >= _LARGE_FIGURE else f"{value:.3g}"


def _count(peer: Peer, wanted: Callable[[str], bool]) -> str:
    return "–" if peer.absent is not None else f"{peer.responses(wanted):,}"


def _name_and_uri(text: str) -> tuple[str, str]:
    name, equals, uri = text.partition("=")
    if not name or not equals or not uri.startswith("http://"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=http://…")
    return name, uri


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Measures Icecore beside other servers, in turns.")
    parser.add_argument(
        "--only",
        nargs="*",
        metavar="NAME",
        choices=["icecore", "iceberg", "icecore-s3", "nessie"],
        help="servers to measure (default: all four; without a name only those of --uri)",
    )
    parser.add_argument("--uri", action="append", type=_name_and_uri, default=[], metavar="NAME=URI", help="one more server, which is up")
    parser.add_argument("--warehouse", help="warehouse that the servers of --uri are asked for")
    parser.add_argument("--token", help="of the servers of --uri: a bearer token")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"blocks of each server ({ROUNDS})")
    parser.add_argument("--block-seconds", type=float, default=BLOCK_SECONDS, help=f"length of a block ({BLOCK_SECONDS})")
    return parser.parse_args()


if __name__ == "__main__":
    main()
