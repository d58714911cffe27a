"""loadTable of one hot 4 KB table with 64 connections and one worker, beside the reference."""

import orjson

from benchmarks.bench import HOT, READ_CONNECTIONS, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, at_least, of_ratio

GOAL = at_least(1.2)
# At half of its own throughput, each responds without a queue, as in normal use by engines.
_RATE_SHARE = 0.5


def run(bench: Bench) -> list[Finding]:
    with bench.many_tables() as (catalog, _):
        body = orjson.dumps(catalog.load("bench", HOT))
        with bench.read_reference(body) as (address, path):
            variants = {
                "ours": lambda: bench.load_one(catalog, HOT),
                "reference": lambda: bench.read(address, paths=[path]),
            }
            blocks = alternate(bench.rounds, variants)
            ours, reference = blocks["ours"], blocks["reference"]
            void = bench.why_void("read", [block["rate"] for block in reference])
            rate = _RATE_SHARE * min(_median(ours, "rate"), _median(reference, "rate"))
            open_loop = alternate(
                max(2, bench.rounds // 10),
                {
                    "ours": lambda: bench.load_one(catalog, HOT, rate=rate),
                    "reference": lambda: bench.read(address, paths=[path], rate=rate),
                },
            )
    found = ratio([block["rate"] for block in ours], [block["rate"] for block in reference])
    details = {
        "body_bytes": len(body),
        "connections": READ_CONNECTIONS,
        "ours": summary(ours),
        "reference": summary(reference),
        "at_fixed_rate": {"rate": round(rate), "ours": summary(open_loop["ours"]), "reference": summary(open_loop["reference"])},
    }
    finding = of_ratio("rate beside the reference", found, GOAL, details)
    finding.void = void
    latency = Finding(
        f"p99 at {rate:,.0f} requests/s, due times kept",
        _median(open_loop["ours"], "p99_ms"),
        "ms",
        details={"reference_p99_ms": _median(open_loop["reference"], "p99_ms")},
        void=void,
    )
    return [finding, latency]


def summary(blocks: list[Json]) -> Json:
    """The medians of a variant's blocks."""
    return {key: round(_median(blocks, key), 3) for key in ("rate", "p50_ms", "p90_ms", "p99_ms", "max_ms") if key in blocks[0]}


def _median(blocks: list[Json], key: str) -> float:
    ordered = sorted(block[key] for block in blocks)
    return float(ordered[len(ordered) // 2])
