"""Named points at which a test makes this process die, fail or hang; off unless the environment variable ICECORE_TEST_FAULT names them.

    ICECORE_TEST_FAULT=commit.after_append:kill@0.01,commit.before_append:hang=5@0.02

is a list of `point:action@probability`. Actions: `kill` (SIGKILL to this process), `raise` (FaultError), `hang=SECONDS`. Points:

    commit.after_metadata_put   the metadata files of a command are written, nothing is appended yet
    commit.before_append        a call of append is about to be sent to Postgres
    commit.after_append         Postgres has committed it, no client has the response yet
    purge.before_delete         a page of a table's files is about to be deleted
    purge.after_delete          the page is deleted
    purge.before_event          all files are deleted, the event is not appended yet

Callers check `if fault_points.SWITCHED_ON` first, so that an ordinary process only pays for a lookup of a name.
ICECORE_TEST_FAULT_SEED (an integer) makes the random choices of a process repeatable.
"""

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass

POINTS = frozenset(
    {
        "commit.after_metadata_put",
        "commit.before_append",
        "commit.after_append",
        "purge.before_delete",
        "purge.after_delete",
        "purge.before_event",
    }
)
_VARIABLE = "ICECORE_TEST_FAULT"
_SEED_VARIABLE = "ICECORE_TEST_FAULT_SEED"


class FaultError(Exception):
    """The exception of a fault point, which no code expects."""


@dataclass(frozen=True, slots=True)
class _Fault:
    action: str
    probability: float
    seconds: float


def parse_faults(text: str) -> dict[str, list[_Fault]]:
    """The faults by point. Raises ValueError for an unknown point or action, because a fault that never occurs would prove nothing."""
    faults: dict[str, list[_Fault]] = {}
    for part in filter(None, text.split(",")):
        point, _, rest = part.partition(":")
        action, _, probability = rest.partition("@")
        name, _, seconds = action.partition("=")
        if point not in POINTS or name not in ("kill", "raise", "hang") or (name == "hang") != bool(seconds):
            raise ValueError(f"{_VARIABLE}: cannot read {part!r}")
        faults.setdefault(point, []).append(_Fault(name, float(probability or 1), float(seconds or 0)))
    return faults


_faults = parse_faults(os.environ.get(_VARIABLE, ""))
_dice = random.Random(os.environ.get(_SEED_VARIABLE))  # noqa: S311 - no secret is drawn
SWITCHED_ON = bool(_faults)


async def reach(point: str) -> None:
    """Performs the faults of this point with their probabilities, after writing a line to standard error."""
    for fault in _faults.get(point, ()):
        if _dice.random() >= fault.probability:
            continue
        os.write(2, f"fault_point {point} {fault.action} process={os.getpid()} at={time.monotonic():.3f}\n".encode())
        match fault.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await asyncio.sleep(fault.seconds)
            case _:
                raise FaultError(point)
