"""`python -m benchmarks.reliability [--long] [--seed N] [--only-controls | --no-controls] [--history FILE]`: exit code 0 if all held.

The long form runs until it counts: at least 30 kills while a commit was in flight and 5,000 acknowledged commits.
"""

import argparse
import secrets
import sys
from pathlib import Path

import uvloop

from benchmarks.reliability.proof import long_proof, private_place, quick_proof, run_control
from benchmarks.reliability.run import Report
from benchmarks.reliability.sabotage import CONTROLS


async def _main(arguments: argparse.Namespace) -> int:
    seed = arguments.seed or secrets.token_hex(4)
    failures = 0
    async with private_place() as cluster:
        if not arguments.only_controls:
            report = await (long_proof(cluster, seed, arguments.minutes) if arguments.long else quick_proof(cluster, seed))
            failures += _print(report, set())
            if arguments.history is not None:
                report.history.save(arguments.history)
        if not arguments.no_controls:
            for name in arguments.control or CONTROLS:
                control = CONTROLS[name]
                failures += _print(await run_control(cluster, seed, control), {control.check} | control.follows, must=control.check)
    print("all held" if not failures else f"{failures} runs did not end as they must")
    return 1 if failures else 0


def _print(report: Report, may: set[str], must: str | None = None) -> int:
    print("\n".join(report.lines()), flush=True)
    if report.red - may or (must is not None and must not in report.red):
        print(f"  NOT AS IT MUST: red are {sorted(report.red)}, must is {must}, may are {sorted(may)}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--minutes", type=float, default=10, help="of the long form, at least")
    parser.add_argument("--seed", default="", help="of clients and faults; a run prints its own")
    parser.add_argument("--only-controls", action="store_true")
    parser.add_argument("--no-controls", action="store_true")
    parser.add_argument("--control", action="append", help="by name; all without this")
    parser.add_argument("--history", type=Path, help="a file for the history of the main run, JSON lines")
    sys.exit(uvloop.run(_main(parser.parse_args())))
