"""Append commits of 32 clients on Debian's Postgres with its default settings, beside the embedded Postgres, in turns."""

import dataclasses

from benchmarks.bench import Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, at_least, of_ratio
from benchmarks.load_hot import summary
from benchmarks.servers import DEBIAN, EMBEDDED, cluster

GOAL = at_least(0.9)


def run(bench: Bench) -> list[Finding]:
    with cluster(DEBIAN) as shipped, cluster(EMBEDDED) as embedded:
        benches = {
            name: dataclasses.replace(bench, cluster=started, made=set()) for name, started in ((DEBIAN, shipped), (EMBEDDED, embedded))
        }
        with benches[DEBIAN].catalog("commits") as on_debian, benches[EMBEDDED].catalog("commits") as on_embedded:
            blocks = alternate(
                bench.rounds,
                {
                    DEBIAN: lambda: append_block(benches[DEBIAN], on_debian),
                    EMBEDDED: lambda: append_block(benches[EMBEDDED], on_embedded),
                },
            )
        versions = {DEBIAN: shipped.version(), EMBEDDED: embedded.version()}
    found = ratio([block["rate"] for block in blocks[DEBIAN]], [block["rate"] for block in blocks[EMBEDDED]])
    details = {"versions": versions, **{name: summary(results) for name, results in blocks.items()}}
    return [of_ratio("rate on Debian's Postgres beside the embedded one", found, GOAL, details)]
