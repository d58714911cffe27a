"""Loads of a table after 100,000 snapshots were added and expired, beside a new table with as many remaining snapshots.

Every load follows a change of its table, so that none is answered from a cache.
"""

import secrets

from benchmarks import work
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, at_most, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog

GOAL = at_most(1.2)
CAME = 100_000
_LEFT = 10
_PER_COMMIT = 5_000


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("expired") as catalog:
        used, fresh = (f"{name}_{secrets.token_hex(4)}" for name in ("used", "fresh"))
        for name in (used, fresh):
            catalog.create_table(NAMESPACE, name)
        _come_and_go(catalog, used)
        catalog.add_snapshots(NAMESPACE, fresh, _LEFT)
        # The same number of old metadata files in both.
        for _ in range(2 * CAME // _PER_COMMIT):
            catalog.commit(NAMESPACE, fresh, work.properties_body({"turn": secrets.token_hex(8)}))

        def block(name: str) -> Json:
            return bench.write(catalog, "change_and_load", clients=1, table=name)

        blocks = alternate(bench.rounds, {"used": lambda: block(used), "fresh": lambda: block(fresh)})
        sizes = {name: len(str(catalog.load(NAMESPACE, name))) for name in (used, fresh)}
    found = ratio([block["p50_ms"] for block in blocks["used"]], [block["p50_ms"] for block in blocks["fresh"]])
    details = {"used": summary(blocks["used"]), "fresh": summary(blocks["fresh"]), "characters": [*sizes.values()]}
    return [of_ratio("p50 of a load beside a fresh table", found, GOAL, details)]


def _come_and_go(catalog: RestCatalog, name: str) -> None:
    kept: list[int] = []
    for _ in range(CAME // _PER_COMMIT):
        kept += catalog.add_snapshots(NAMESPACE, name, _PER_COMMIT, per_commit=_PER_COMMIT)
        expired, kept = kept[:-_LEFT], kept[-_LEFT:]
        catalog.commit(NAMESPACE, name, work.expire_body(expired))
