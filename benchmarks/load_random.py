"""loadTable of random tables out of 10,000, from the cache, beside one hot table."""

from benchmarks.bench import HOT, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, at_least, of_ratio
from benchmarks.load_hot import summary

GOAL = at_least(0.8)


def run(bench: Bench) -> list[Finding]:
    with bench.many_tables() as (catalog, count):
        # Loads each table once, so that all are cached.
        bench.read(catalog.address, template=catalog.table_path("bench", "t{n}"), count=count, each=True, headers=catalog.headers)
        blocks = alternate(
            bench.rounds,
            {
                "random": lambda: bench.load_random(catalog, count),
                "hot": lambda: bench.load_one(catalog, HOT),
            },
        )
    found = ratio([block["rate"] for block in blocks["random"]], [block["rate"] for block in blocks["hot"]])
    details = {"tables": count, "random": summary(blocks["random"]), "hot": summary(blocks["hot"])}
    return [of_ratio("rate beside the hot table", found, GOAL, details)]
