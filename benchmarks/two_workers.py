"""Reads with two workers against one, with the client and Postgres on the same processors."""

from benchmarks.bench import HOT, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, at_least, of_ratio
from benchmarks.load_hot import summary

GOAL = at_least(1.2)


def run(bench: Bench) -> list[Finding]:
    with bench.many_tables(workers=1) as (alone, _), bench.many_tables(workers=2) as (shared, _):
        blocks = alternate(
            bench.rounds,
            {
                "two": lambda: bench.load_one(shared, HOT),
                "one": lambda: bench.load_one(alone, HOT),
            },
        )
    found = ratio([block["rate"] for block in blocks["two"]], [block["rate"] for block in blocks["one"]])
    return [of_ratio("rate of two beside one", found, GOAL, {"two": summary(blocks["two"]), "one": summary(blocks["one"])})]
