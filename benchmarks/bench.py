"""What the claims of a run share: Postgres, the load generator, seeded databases, references and their recorded rates."""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from benchmarks import machine, seeding
from benchmarks.clients import ClientProcess
from benchmarks.rest import RestCatalog
from benchmarks.servers import Cluster, Service, our_server, reference_server, store_reference_body

Json = dict[str, Any]

RATES = Path(__file__).resolve().parent / "reference" / "rates.json"
REFERENCE_SHARE_MIN = 0.8
"""A run whose reference is slower than this share of its own recorded rate is void."""

READ_CONNECTIONS = 64
WRITERS = 32
NAMESPACE = "bench"
MANY_TABLES = 10_000
HOT = "hot"
LARGE = "large"
LARGE_SNAPSHOTS = 1_000
REFERENCE_BYTES = 4_096
"""The bytes of the file and of the response for which the reference's rate for writes is recorded."""


class UnfitRunError(Exception):
    """A measurement is impossible here, or failed without a figure."""


@dataclass(slots=True)
class Bench:
    """One run. `long`: the long form; `foreign`: another server to measure (--uri) instead of ours.

    rounds, block_seconds -- compared variants run `rounds` blocks of this length each, in turns.
    made -- names of what claims have made in the databases of the run.
    """

    cluster: Cluster
    client: ClientProcess
    long: bool
    rounds: int
    block_seconds: float
    foreign: RestCatalog | None = None
    profiles: Path | None = None
    made: set[str] = field(default_factory=set)

    # Servers and databases

    @contextlib.contextmanager
    def served(self, database: str, *, workers: int = 1, settings: dict[str, str] | None = None) -> Iterator[Service]:
        """Our server on a database of this run."""
        profile = None
        if self.profiles is not None and workers == 1:
            profile = self.profiles / f"{database}-{secrets.token_hex(2)}.txt"
        dsn = self.cluster.database(database)
        with our_server(self.cluster, dsn, workers=workers, settings=settings, profile=profile) as service:
            yield service
        if profile is not None and profile.exists():
            print(f"    profile: {profile}", flush=True)

    @contextlib.contextmanager
    def catalog(self, database: str, *, workers: int = 1) -> Iterator[RestCatalog]:
        """The server that this run measures: the foreign one, or ours with a local warehouse on a database of that name."""
        if self.foreign is not None:
            self.foreign.create_namespace(NAMESPACE)
            yield self.foreign
            return
        self.local_database(database)
        with self.served(database, workers=workers) as service, contextlib.closing(service.catalog()) as catalog:
            catalog.create_namespace(NAMESPACE)
            yield catalog

    def local_database(self, name: str) -> str:
        """A database with a warehouse of local files."""
        dsn = self.cluster.database(name)
        if name not in self.made:
            seeding.make_warehouse(dsn, seeding.local_profile(self.cluster.directory / f"{name}-files"))
            self.made.add(name)
        return dsn

    @contextlib.contextmanager
    def many_tables(self, *, workers: int = 1, settings: dict[str, str] | None = None) -> Iterator[tuple[RestCatalog, int]]:
        """A catalog with the tables `t0` …, `hot` (4 KB) and `large` (1,000 snapshots) in NAMESPACE, and the number of the `t` tables.

        A foreign server gets a tenth of the tables, because they are created one by one.
        """
        if self.foreign is not None:
            count = MANY_TABLES // 10
            if "many" not in self.made:
                seeding.create_tables(self.foreign, NAMESPACE, count)
                self._make_named(self.foreign)
                self.made.add("many")
            yield self.foreign, count
            return
        dsn = self.local_database("many")
        fresh = "many-tables" not in self.made
        if fresh:
            done = seeding.append_tables(dsn, NAMESPACE, MANY_TABLES, with_files=True)
            print(f"    seeded {done.tables} tables in {done.seconds:.1f} s", flush=True)
            self.made.add("many-tables")
        with self.served("many", workers=workers, settings=settings) as service, contextlib.closing(service.catalog()) as catalog:
            if fresh:
                self._make_named(catalog)
            yield catalog, MANY_TABLES

    def _make_named(self, catalog: RestCatalog) -> None:
        catalog.create_table(NAMESPACE, HOT)
        catalog.add_snapshots(NAMESPACE, HOT, 2)
        catalog.create_table(NAMESPACE, LARGE)
        catalog.add_snapshots(NAMESPACE, LARGE, LARGE_SNAPSHOTS)

    def listed_database(self, count: int) -> str:
        """The name of a database with `count` tables without files. Reads do not use the store."""
        name = f"listed_{count}"
        dsn = self.cluster.database(name)
        if name not in self.made:
            seeding.make_warehouse(dsn, seeding.NOWHERE)
            done = seeding.append_tables(dsn, NAMESPACE, count, with_files=False)
            print(f"    seeded {count} tables through append in {done.seconds:.0f} s ({count / done.seconds:,.0f}/s)", flush=True)
            self.made.add(name)
        return name

    # Reads

    def load_one(self, catalog: RestCatalog, table: str, *, gzip: bool = False, **more: Any) -> Json:
        """A block of loads of one table."""
        headers = {**catalog.headers, **({"Accept-Encoding": "gzip"} if gzip else {})}
        return self.read(catalog.address, paths=[catalog.table_path(NAMESPACE, table)], headers=headers, **more)

    def load_random(self, catalog: RestCatalog, count: int, *, seed: int = 0, **more: Any) -> Json:
        """A block of loads of random tables of `t0` …."""
        template = catalog.table_path(NAMESPACE, "t{n}")
        return self.read(catalog.address, template=template, count=count, seed=seed, headers=catalog.headers, **more)

    def read(self, address: tuple[str, int], **job: Any) -> Json:
        """A block of reads. Raises UnfitRunError if a response is not 200."""
        given = {"connections": READ_CONNECTIONS, "seconds": self.block_seconds, **job}
        result = self.client.do({"kind": "reads", "address": address, **given})
        if [*result["statuses"]] != ["200"] or result["lost"]:
            raise UnfitRunError(f"reads were answered with {result['statuses']}, {result['lost']} lost")
        return result

    # Writes

    def write(self, catalog: RestCatalog, writer: str, *, clients: int = WRITERS, seconds: float | None = None, **given: Any) -> Json:
        """A block of writers (writers.py)."""
        return self.client.do(self.write_job(catalog, writer, clients=clients, seconds=seconds, **given))

    def write_job(self, catalog: RestCatalog, writer: str, *, clients: int, seconds: float | None, **given: Any) -> Json:
        return {
            "kind": "writes",
            "address": catalog.address,
            "prefix": catalog.prefix,
            "headers": catalog.headers,
            "writer": writer,
            "clients": clients,
            "seconds": seconds or self.block_seconds,
            "with": {"namespace": NAMESPACE, **given},
        }

    def write_reference(self, address: tuple[str, int], *, file_bytes: int, response_bytes: int, clients: int = WRITERS) -> Json:
        """A block of the reference's commits."""
        path = f"/commits/table-{{n}}?file={file_bytes}&answer={response_bytes}"
        job = {"kind": "writes", "address": address, "prefix": "", "headers": {}, "writer": "post_same", "clients": clients}
        return self.client.do({**job, "seconds": self.block_seconds, "with": {"path": path}})

    # References

    @contextlib.contextmanager
    def read_reference(self, body: bytes) -> Iterator[tuple[tuple[str, int], str]]:
        """The reference for reads of that body: its address and the path to read."""
        with reference_server(self.cluster, "read_server") as address:
            store_reference_body(self.cluster, "hot", body)
            yield address, "/bodies/hot"

    @contextlib.contextmanager
    def commit_reference(self) -> Iterator[tuple[str, int]]:
        with reference_server(self.cluster, "write_server") as address:
            yield address

    def why_void(self, kind: str, rates: list[float]) -> str | None:
        """Why a run is void: its reference (`read` at 4 KB, `write` at REFERENCE_BYTES) is slower than the recorded rate."""
        measured, recorded = median(rates), recorded_rate(kind)
        if recorded is None:
            return f"no rate of the {kind} reference is recorded for this machine class (it ran at {measured:,.0f}/s): run --record"
        if measured < REFERENCE_SHARE_MIN * recorded:
            return f"the {kind} reference ran at {measured:,.0f}/s, {measured / recorded:.0%} of its recorded {recorded:,.0f}/s"
        return None


def recorded_rate(kind: str) -> float | None:
    rates = orjson.loads(RATES.read_bytes()) if RATES.exists() else {}
    recorded: float | None = rates.get(machine.machine_class(), {}).get(kind)
    return recorded


def record_rates(measured: dict[str, float]) -> None:
    """Records the references' rates for this machine class."""
    rates = orjson.loads(RATES.read_bytes()) if RATES.exists() else {}
    rates.setdefault(machine.machine_class(), {}).update({kind: round(rate) for kind, rate in measured.items()})
    RATES.write_bytes(orjson.dumps(rates, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
