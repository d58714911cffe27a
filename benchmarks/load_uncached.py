"""loadTable of random tables out of very many, almost without cache, beside the reference; its p50 beside the one at 10,000 tables.

The short form has 100,000 tables and only reports. The goals are for the long form with 1,000,000.
"""

import contextlib

import orjson

from benchmarks.bench import MANY_TABLES, NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.create_and_list import TABLES
from benchmarks.findings import Finding, Json, at_least, at_most, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog
from benchmarks.servers import TABLES_UNCACHED

RATE_GOAL = at_least(0.6)
P50_GOAL = at_most(1.3)
TABLES_LONG = 1_000_000
# p50 is compared at a rate without queues.
_CONNECTIONS_P50 = 4


def run(bench: Bench) -> list[Finding]:
    count = TABLES_LONG if bench.long else TABLES
    with contextlib.ExitStack() as opened:
        many = _served(bench, opened, count)
        few = _served(bench, opened, MANY_TABLES)
        body = orjson.dumps(many.load(NAMESPACE, "t0"))
        address, path = opened.enter_context(bench.read_reference(body))
        turn = 0

        def random_block(catalog: RestCatalog, tables: int, connections: int) -> Json:
            nonlocal turn
            turn += 1
            return bench.load_random(catalog, tables, seed=turn, connections=connections)

        rates = alternate(
            bench.rounds,
            {
                "ours": lambda: random_block(many, count, 64),
                "reference": lambda: bench.read(address, paths=[path]),
            },
        )
        times = alternate(
            bench.rounds // 2,
            {
                "many": lambda: random_block(many, count, _CONNECTIONS_P50),
                "few": lambda: random_block(few, MANY_TABLES, _CONNECTIONS_P50),
            },
        )
    found = ratio([block["rate"] for block in rates["ours"]], [block["rate"] for block in rates["reference"]])
    void = bench.why_void("read", [block["rate"] for block in rates["reference"]])
    rate = of_ratio(
        f"rate beside the reference, {count:,} tables",
        found,
        RATE_GOAL if bench.long else None,
        {"ours": summary(rates["ours"]), "reference": summary(rates["reference"]), "body_bytes": len(body)},
    )
    rate.void = void
    found = ratio([block["p50_ms"] for block in times["many"]], [block["p50_ms"] for block in times["few"]])
    details = {"many": summary(times["many"]), "few": summary(times["few"])}
    return [rate, of_ratio(f"p50 at {count:,} tables beside {MANY_TABLES:,}", found, P50_GOAL if bench.long else None, details)]


def _served(bench: Bench, opened: contextlib.ExitStack, count: int) -> RestCatalog:
    service = opened.enter_context(bench.served(bench.listed_database(count), settings=TABLES_UNCACHED))
    return opened.enter_context(contextlib.closing(service.catalog()))
