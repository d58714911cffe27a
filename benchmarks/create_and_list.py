"""createTable by 32 clients; listTables of 100,000 tables, the first page against page 900."""

import contextlib
import secrets
from statistics import median

from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.blocks import alternate, interval, ratio
from benchmarks.findings import Finding, of_ratio, within
from benchmarks.load_hot import summary

TABLES = 100_000
PAGE_TABLES = 100
LATE_PAGE = 900
_CONNECTIONS = 4


def run(bench: Bench) -> list[Finding]:
    return [_create(bench), _list(bench)]


def _create(bench: Bench) -> Finding:
    with bench.catalog("created") as catalog:
        blocks = [bench.write(catalog, "create", stem=secrets.token_hex(4)) for _ in range(bench.rounds // 2)]
    for block in blocks:
        if [*block["statuses"]] != ["200"]:
            raise UnfitRunError(f"createTable was answered with {block['statuses']}: {block['refusals']}")
    rates = [block["rate"] for block in blocks]
    return Finding("createTable, 32 clients", median(rates), "/s", interval=interval(rates), details=summary(blocks))


def _list(bench: Bench) -> Finding:
    with bench.served(bench.listed_database(TABLES)) as service, contextlib.closing(service.catalog()) as catalog:
        token, seen = "", set[str]()
        for _ in range(LATE_PAGE - 1):
            page, following = catalog.list_page(NAMESPACE, PAGE_TABLES, token)
            assert len(page) == PAGE_TABLES
            assert following is not None, "the list ends too early"
            seen.update(page)
            token = following
        assert len(seen) == PAGE_TABLES * (LATE_PAGE - 1), "pages overlap"
        first, late = (catalog.list_path(NAMESPACE, PAGE_TABLES, at) for at in ("", token))
        blocks = alternate(
            bench.rounds // 2,
            {
                "late": lambda: bench.read(catalog.address, paths=[late], connections=_CONNECTIONS, headers=catalog.headers),
                "first": lambda: bench.read(catalog.address, paths=[first], connections=_CONNECTIONS, headers=catalog.headers),
            },
        )
    found = ratio([block["p50_ms"] for block in blocks["late"]], [block["p50_ms"] for block in blocks["first"]])
    details = {"late": summary(blocks["late"]), "first": summary(blocks["first"]), "page_tables": PAGE_TABLES}
    return of_ratio(f"listTables p50, page {LATE_PAGE} beside page 1", found, within(0.2), details)
