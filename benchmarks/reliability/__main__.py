"""`python -m benchmarks.reliability [--long | --pooler MODE] [--only-controls | --no-controls] [--seed N] [--report FILE] …`.

The exit code is 0 if all checks are as expected. The long form runs until it counts: it needs at least 30 kills while a commit was in
flight and 5,000 acknowledged commits.
"""

import argparse
import secrets
import sys
import traceback
from pathlib import Path
from typing import Any

import orjson
import uvloop

from benchmarks.reliability.cluster import Cluster
from benchmarks.reliability.failover import failover
from benchmarks.reliability.fault_injection import CONTROLS, Control
from benchmarks.reliability.proof import CONTROLS_TOGETHER, long_proof, pooler_proof, private_place, quick_proof, run_controls
from benchmarks.reliability.run import Report


async def _main(arguments: argparse.Namespace) -> int:
    seed = arguments.seed or secrets.token_hex(4)
    outcomes: list[dict[str, Any]] = []
    if arguments.failover is not None:
        return await _failover(seed, arguments)
    async with private_place() as cluster:
        if not arguments.only_controls:
            outcomes.append(await _proof(cluster, seed, arguments))
        if not arguments.no_controls:
            names = arguments.control or [*CONTROLS]
            async for control, outcome in run_controls(cluster, seed, names, together=arguments.together, pool_mode=arguments.pooler):
                outcomes.append(_judged(control, outcome))
    if arguments.report is not None:
        arguments.report.write_bytes(b"".join(orjson.dumps(outcome) + b"\n" for outcome in outcomes))
    failures = sum(not outcome["as-it-must"] for outcome in outcomes)
    print("all held" if not failures else f"{failures} runs did not end as they must")
    return 1 if failures else 0


async def _failover(seed: str, arguments: argparse.Namespace) -> int:
    report = await failover(seed, synchronous=arguments.failover == "synchronous")
    lost = set() if arguments.failover == "synchronous" else {"acknowledged"}
    outcome = _said(report.name, report, as_it_must=lost <= report.red and bool(lost) == bool(report.red))
    if arguments.report is not None:
        arguments.report.write_bytes(orjson.dumps(outcome) + b"\n")
    return 0 if outcome["as-it-must"] else 1


async def _proof(cluster: Cluster, seed: str, arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.pooler is not None:
        report = await pooler_proof(cluster, seed, arguments.pooler)
    else:
        report = await (long_proof(cluster, seed, arguments.minutes) if arguments.long else quick_proof(cluster, seed))
    if arguments.history is not None:
        report.history.save(arguments.history)
    return _said(report.name, report, as_it_must=not report.red)


def _judged(control: Control, outcome: Report | Exception) -> dict[str, Any]:
    """Whether a control turned its own check red, and no unrelated check."""
    if isinstance(outcome, Exception):
        print(f"control: {control.name}\n{''.join(traceback.format_exception(outcome))}", flush=True)
        return {"name": control.name, "as-it-must": False, "error": repr(outcome)}
    as_it_must = {control.check} <= outcome.red <= {control.check} | control.follows
    return _said(control.name, outcome, as_it_must=as_it_must)


def _said(name: str, report: Report, *, as_it_must: bool) -> dict[str, Any]:
    print("\n".join(report.lines()), flush=True)
    if not as_it_must:
        print("  NOT AS IT MUST", flush=True)
    return {**report.to_json(), "name": name, "as-it-must": as_it_must}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--long", action="store_true")
    parser.add_argument(
        "--failover", choices=("synchronous", "asynchronous"), help="only this: the primary is killed, its standby promoted"
    )
    parser.add_argument("--pooler", choices=("session", "transaction"), help="a PgBouncer in front of Postgres, also for controls")
    parser.add_argument("--minutes", type=float, default=10, help="of the long form, at least")
    parser.add_argument("--seed", default="", help="of clients and faults; a run prints its own")
    parser.add_argument("--only-controls", action="store_true")
    parser.add_argument("--no-controls", action="store_true")
    parser.add_argument("--control", action="append", choices=CONTROLS, help="by name; all without this")
    parser.add_argument("--together", type=int, default=CONTROLS_TOGETHER, help="how many controls run side by side")
    parser.add_argument("--history", type=Path, help="a file for the history of the main run, JSON lines")
    parser.add_argument("--report", type=Path, help="a file for what every run came to, JSON lines")
    sys.exit(uvloop.run(_main(parser.parse_args())))
