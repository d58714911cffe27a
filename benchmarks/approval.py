"""The cost of an approval plug-in that allows: commits of one client, with the hook and without, in turns."""

import contextlib
import secrets
from functools import partial
from statistics import median

from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog

# Icecore's schema contract on a namespace without a contract: it reviews every commit and allows it.
HOOK = {"ICECORE_HOOKS__CONTRACT__TYPE": "plugin", "ICECORE_HOOKS__CONTRACT__PLUGIN": "schema-contract"}


def run(bench: Bench) -> list[Finding]:
    bench.local_database("approval")
    with contextlib.ExitStack() as opened:
        catalogs: dict[str, RestCatalog] = {}
        for variant, settings in (("with", HOOK), ("without", {})):
            service = opened.enter_context(bench.served("approval", settings=settings))
            catalogs[variant] = opened.enter_context(contextlib.closing(service.catalog()))
        catalogs["without"].create_namespace(NAMESPACE)
        for catalog in catalogs.values():
            one_client_block(bench, catalog)  # Warm-up.
        blocks = alternate(bench.rounds, {variant: partial(one_client_block, bench, catalog) for variant, catalog in catalogs.items()})
    times = {variant: [block["p50_ms"] for block in found] for variant, found in blocks.items()}
    found = ratio(times["with"], times["without"])
    details = {variant: summary(each) for variant, each in blocks.items()}
    added = median(one - other for one, other in zip(times["with"], times["without"], strict=True))
    return [
        of_ratio("p50 of a commit with a plug-in that allows, against none", found, None, details),
        Finding("what the plug-in adds to it", added * 1000, "µs"),
    ]


def one_client_block(bench: Bench, catalog: RestCatalog) -> Json:
    """Appends of one client to a new table."""
    name = f"approval_{secrets.token_hex(4)}"
    metadata = catalog.create_table(NAMESPACE, name)
    result = bench.write(catalog, "append_own", clients=1, tables=[(name, metadata["location"], 0, None)])
    if [*result["statuses"]] != ["200"]:
        raise UnfitRunError(f"commits were answered with {result['statuses']}: {result['refusals']}")
    return result
