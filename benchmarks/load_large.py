"""loadTable of a table with 1,000 snapshots and gzip, beside one of 4 KB."""

from benchmarks.bench import HOT, LARGE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, at_least, of_ratio
from benchmarks.load_hot import summary

GOAL = at_least(0.5)


def run(bench: Bench) -> list[Finding]:
    with bench.many_tables() as (catalog, _):
        blocks = alternate(
            bench.rounds,
            {
                "large": lambda: bench.load_one(catalog, LARGE, gzip=True),
                "small": lambda: bench.load_one(catalog, HOT),
            },
        )
    found = ratio([block["rate"] for block in blocks["large"]], [block["rate"] for block in blocks["small"]])
    sent = sum(block["bytes"] for block in blocks["large"]) / sum(block["responses"] for block in blocks["large"])
    details = {"large": summary(blocks["large"]), "small": summary(blocks["small"]), "gzip_bytes": round(sent)}
    return [of_ratio("rate beside the 4 KB table", found, GOAL, details)]
