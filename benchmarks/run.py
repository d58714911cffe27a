"""Runs the benchmarks: `python -m benchmarks.run [--long] [--only NAME …] [--uri URI]`; results go to benchmarks/results/."""

import argparse
import contextlib
import importlib
import signal
import sys
import time
import traceback
from pathlib import Path
from statistics import median

from benchmarks import machine, report
from benchmarks.bench import REFERENCE_BYTES, Bench, record_rates
from benchmarks.claims import CLAIMS, Claim
from benchmarks.clients import ClientProcess
from benchmarks.findings import Finding
from benchmarks.rest import RestCatalog
from benchmarks.servers import DEBIAN, EMBEDDED, cluster

ROUNDS = 20
BLOCK_SECONDS = 0.5
LONG_BLOCK_SECONDS = 2.0


def main() -> None:
    given = _arguments()
    # On SIGTERM, exits normally, so that servers and folders are removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    claims = [claim for claim in CLAIMS if _wanted(claim, given)]
    with contextlib.ExitStack() as opened:
        bench = _bench(opened, given)
        if given.record:
            _record(bench)
            return
        setting = {
            **machine.setting(),
            "postgres": f"{bench.cluster.version()} ({given.postgres})",
            "form": "long" if given.long else "short",
            "measured": given.uri or "icecore",
            "rounds": bench.rounds,
            "block_seconds": bench.block_seconds,
        }
        findings: list[Finding] = []
        busy: dict[str, float] = {}
        started = time.monotonic()
        for claim in claims:
            busy[claim.name] = round(machine.busy_share(), 2)
            findings += _run(claim, bench)
            setting["seconds"] = round(time.monotonic() - started)
            # After each claim, so that an interrupted run keeps its results.
            written = report.write({**setting, "busy_before": busy}, findings, partial=bool(given.only) or bool(given.profile))
    print(f"\n{report.table(findings)}\n\n{written}")


def _run(claim: Claim, bench: Bench) -> list[Finding]:
    print(f"{claim.name}: {claim.text}", flush=True)
    started = time.monotonic()
    try:
        findings: list[Finding] = importlib.import_module(f"benchmarks.{claim.name}").run(bench)
    except Exception as error:
        # A claim that fails must not discard the results of the others.
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        findings = [Finding("not measured", float("nan"), "", void=reason[:300])]
    for finding in findings:
        finding.claim = claim.name
        print(f"    {report.line(finding)}", flush=True)
    print(f"    ({time.monotonic() - started:.0f} s)", flush=True)
    return findings


def _bench(opened: contextlib.ExitStack, given: argparse.Namespace) -> Bench:
    started = opened.enter_context(cluster(given.postgres))
    client = ClientProcess()
    opened.callback(client.close)
    foreign = None
    if given.uri:
        foreign = RestCatalog(given.uri, given.warehouse, given.token)
        opened.callback(foreign.close)
    profiles: Path | None = given.profile
    if profiles is not None:
        profiles.mkdir(parents=True, exist_ok=True)
    seconds = given.block_seconds or (LONG_BLOCK_SECONDS if given.long else BLOCK_SECONDS)
    return Bench(started, client, given.long, given.rounds or ROUNDS, seconds, foreign, profiles)


def _record(bench: Bench) -> None:
    """Records the references' rates on this machine, to be committed. Run it on an otherwise idle machine."""
    measured: dict[str, float] = {}
    with bench.read_reference(b"x" * REFERENCE_BYTES) as (address, path):
        measured["read"] = median(bench.read(address, paths=[path])["rate"] for _ in range(bench.rounds))
    with bench.commit_reference() as address:
        sizes = {"file_bytes": REFERENCE_BYTES, "response_bytes": REFERENCE_BYTES}
        measured["write"] = median(bench.write_reference(address, **sizes)["rate"] for _ in range(bench.rounds))
    record_rates(measured)
    print(f"{machine.machine_class()}: " + ", ".join(f"{kind} {rate:,.0f}/s" for kind, rate in measured.items()))


def _wanted(claim: Claim, given: argparse.Namespace) -> bool:
    if given.only:
        return claim.name in given.only
    return (given.long or not claim.long_only) and (not given.uri or claim.over_http)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measures each claim beside its reference.")
    parser.add_argument("--long", action="store_true", help="about an hour: longer blocks, 1,000,000 tables, 10 minutes of memory")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[claim.name for claim in CLAIMS], help="these claims alone")
    parser.add_argument("--uri", help="measure another Iceberg REST server (its HTTP claims), e.g. http://127.0.0.1:8181/catalog")
    parser.add_argument("--warehouse", help="with --uri: the warehouse to ask its config for")
    parser.add_argument("--token", help="with --uri: a bearer token")
    parser.add_argument(
        "--postgres", choices=[EMBEDDED, DEBIAN], default=EMBEDDED, help="the Postgres of the run; debian: as it is shipped"
    )
    parser.add_argument("--profile", type=Path, metavar="DIRECTORY", help="write where our server spends its time")
    parser.add_argument("--record", action="store_true", help="record the references' rates for this machine class")
    parser.add_argument("--rounds", type=int, help=f"blocks of each variant ({ROUNDS})")
    parser.add_argument("--block-seconds", type=float, help=f"length of a block ({BLOCK_SECONDS}; long {LONG_BLOCK_SECONDS})")
    return parser.parse_args()


if __name__ == "__main__":
    main()
