"""32 writers with commits to one table that do not conflict (different properties and tags), against appends to distinct tables."""

import secrets

from benchmarks.bench import NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, at_least, at_most, of_ratio
from benchmarks.load_hot import summary

GOAL = at_least(0.5)
_SNAPSHOTS = 10


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("commits") as catalog:
        table = f"changed_{secrets.token_hex(4)}"
        catalog.create_table(NAMESPACE, table)
        snapshots = catalog.add_snapshots(NAMESPACE, table, _SNAPSHOTS)
        blocks = alternate(
            bench.rounds,
            {
                "one table": lambda: bench.write(catalog, "change_shared", table=table, snapshots=snapshots),
                "distinct": lambda: append_block(bench, catalog),
            },
        )
    shared = blocks["one table"]
    found = ratio([block["rate"] for block in shared], [block["rate"] for block in blocks["distinct"]])
    conflicts = sum(block["statuses"].get("409", 0) for block in shared)
    others = {status for block in shared for status in block["statuses"]} - {"200", "409"}
    details = {"one table": summary(shared), "distinct": summary(blocks["distinct"]), "other_statuses": sorted(others)}
    return [
        of_ratio("rate beside distinct tables", found, GOAL, details),
        Finding("conflicts and errors", conflicts + len(others), "", at_most(0, "")),
    ]
