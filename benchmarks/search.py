"""Searches among 100,000 tables, beside loads of random tables by name: by the name, misspelt, by the path, and by what all names share."""

import contextlib
from collections.abc import Callable
from functools import partial

import psycopg

from benchmarks.bench import NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.create_and_list import TABLES
from benchmarks.findings import Finding, Json, at_most, of_ratio
from benchmarks.load_hot import summary
from icecore.asynchronous_projections import rebuild_projection
from icecore.projections.asynchronous.search import SearchProjection

GOAL = at_most(10)
# The time of a request without queues is measured.
_CONNECTIONS = 1
SEARCHES = {"name": "t{n}", "misspelt name": "t{n}x", "path": f"{NAMESPACE}.t{{n}}", "namespace": NAMESPACE, "first letter of all": "t"}


def run(bench: Bench) -> list[Finding]:
    database = bench.listed_database(TABLES)
    dsn = bench.cluster.database(database)
    rebuild_projection(dsn, SearchProjection)
    with bench.served(database) as service, contextlib.closing(service.catalog()) as catalog:
        with psycopg.connect(dsn) as connection:
            warehouse_id = connection.execute("select warehouse_id from icecore.warehouses").fetchall()[0][0]
        path = f"/management/v1/warehouse/{warehouse_id}/search-tabular"
        turn = 0

        def searches(text: str) -> Json:
            nonlocal turn
            turn += 1
            return bench.read(catalog.address, search=path, template=text, count=TABLES, seed=turn, connections=_CONNECTIONS)

        work: dict[str, Callable[[], Json]] = {what: partial(searches, text) for what, text in SEARCHES.items()}
        work["load"] = lambda: bench.load_random(catalog, TABLES, seed=turn, connections=_CONNECTIONS)
        blocks = alternate(bench.rounds // 2, work)
    return [
        of_ratio(
            f"p50 of a search by {what} beside a load, {TABLES:,} tables",
            ratio([block["p50_ms"] for block in blocks[what]], [block["p50_ms"] for block in blocks["load"]]),
            GOAL,
            {what: summary(blocks[what]), "load": summary(blocks["load"])},
        )
        for what in SEARCHES
    ]
