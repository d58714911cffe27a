"""Append commits of 32 clients, each to its own tables with local files, beside the reference with as many bytes."""

import secrets

from benchmarks.bench import NAMESPACE, REFERENCE_BYTES, WRITERS, Bench, UnfitRunError
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, at_least, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog

GOAL = at_least(0.5)
_CHECK_BLOCKS = 3


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("commits") as catalog, bench.commit_reference() as address:
        check = [
            bench.write_reference(address, file_bytes=REFERENCE_BYTES, response_bytes=REFERENCE_BYTES)["rate"] for _ in range(_CHECK_BLOCKS)
        ]
        sizes = _Sizes()

        def ours() -> Json:
            result = append_block(bench, catalog)
            sizes.note(result)
            return result

        ours()  # Gives the reference's first block its sizes.
        blocks = alternate(
            bench.rounds,
            {
                "ours": ours,
                "reference": lambda: bench.write_reference(address, file_bytes=sizes.document, response_bytes=sizes.document),
            },
        )
    found = ratio([block["rate"] for block in blocks["ours"]], [block["rate"] for block in blocks["reference"]])
    details = {"document_bytes": sizes.document, "ours": summary(blocks["ours"]), "reference": summary(blocks["reference"])}
    finding = of_ratio("rate beside the reference", found, GOAL, details)
    finding.void = bench.why_void("write", check)
    return [finding]


class _Sizes:
    """The mean sizes of the documents that our last block wrote and answered with."""

    def __init__(self) -> None:
        self.document = REFERENCE_BYTES

    def note(self, result: Json) -> None:
        self.document = result["response_bytes"] // max(1, result["commits"])


def append_block(bench: Bench, catalog: RestCatalog) -> Json:
    """A block of appends to 32 new tables. Raises UnfitRunError if one was refused."""
    result = append_to_new_tables(bench, catalog)
    if [*result["statuses"]] != ["200"]:
        raise UnfitRunError(f"appends to a table that no other client writes were answered with {result['statuses']}: {result['refusals']}")
    return result


def append_to_new_tables(bench: Bench, catalog: RestCatalog) -> Json:
    """A block of appends to 32 new tables. A client whose commit is refused stops."""
    stem = secrets.token_hex(4)
    tables = []
    for number in range(WRITERS):
        metadata = catalog.create_table(NAMESPACE, f"{stem}_{number}")
        tables.append((f"{stem}_{number}", metadata["location"], 0, None))
    return bench.write(catalog, "append_own", tables=tables)
