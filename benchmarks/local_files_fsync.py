"""The cost of syncing a commit's metadata file to disk before its event: with the sync and without, in turns."""

import contextlib
from functools import partial

from benchmarks.approval import one_client_block
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, Json, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog


def run(bench: Bench) -> list[Finding]:
    bench.local_database("fsync")
    with contextlib.ExitStack() as opened:
        catalogs: dict[str, RestCatalog] = {}
        for variant, value in (("on", "true"), ("off", "false")):
            service = opened.enter_context(bench.served("fsync", settings={"ICECORE_LOCAL_FILES_FSYNC": value}))
            catalogs[variant] = opened.enter_context(contextlib.closing(service.catalog()))
        catalogs["on"].create_namespace(NAMESPACE)
        many = _in_turns(bench, {variant: partial(append_block, bench, catalog) for variant, catalog in catalogs.items()})
        alone = _in_turns(bench, {variant: partial(one_client_block, bench, catalog) for variant, catalog in catalogs.items()})
    rates = {variant: [block["rate"] for block in blocks] for variant, blocks in many.items()}
    times = {variant: [block["p50_ms"] for block in blocks] for variant, blocks in alone.items()}
    return [
        of_ratio("rate of 32 clients, synced against not", ratio(rates["on"], rates["off"]), None, _details(many)),
        of_ratio("p50 of one client's commit, synced against not", ratio(times["on"], times["off"]), None, _details(alone)),
    ]


def _in_turns(bench: Bench, variants: dict[str, partial[Json]]) -> dict[str, list[Json]]:
    for block in variants.values():
        block()  # Warm-up.
    return alternate(bench.rounds, dict(variants))


def _details(blocks: dict[str, list[Json]]) -> Json:
    return {variant: summary(found) for variant, found in blocks.items()}
