"""The time of a commit to a table with 10,000 snapshots against one with 10: one client, no gzip, the response is read completely."""

import secrets

from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, at_most, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog

GOAL = at_most(5)
SHORT, LONG = 10, 10_000


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("commits") as catalog:
        tables = {count: _table(catalog, count) for count in (SHORT, LONG)}

        def block(count: int) -> Json:
            # Each block continues the previous one.
            metadata = catalog.load(NAMESPACE, tables[count])["metadata"]
            given = (tables[count], metadata["location"], metadata["last-sequence-number"], metadata["current-snapshot-id"])
            result = bench.write(catalog, "append_own", clients=1, tables=[given])
            if [*result["statuses"]] != ["200"]:
                raise UnfitRunError(f"commits were answered with {result['statuses']}: {result['refusals']}")
            return result

        blocks = alternate(bench.rounds, {"long": lambda: block(LONG), "short": lambda: block(SHORT)})
    found = ratio([block["p50_ms"] for block in blocks["long"]], [block["p50_ms"] for block in blocks["short"]])
    details = {"long": summary(blocks["long"]), "short": summary(blocks["short"])}
    return [of_ratio("p50 at 10,000 snapshots against 10", found, GOAL, details)]


def _table(catalog: RestCatalog, snapshots: int) -> str:
    name = f"history_{secrets.token_hex(4)}"
    catalog.create_table(NAMESPACE, name)
    catalog.add_snapshots(NAMESPACE, name, snapshots, per_commit=5_000)
    return name
