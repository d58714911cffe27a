"""The checkers: each compares what clients observed, the log and the files, and returns contradictions to one promise.

They read the log row by row and use no code of the product to interpret it, so that they are independent of the code they check.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psycopg

from benchmarks.reliability.history import DELETE_OLD_FILES, Attempt, History, Mutation
from icecore.projections.verify import verify

AWAY_SECONDS_MAX = 2.0
# A tolerance in seconds: clients, proxy, workers and Postgres share the machine's cores, so responses are received late.
_HEARD_SECONDS_MAX = 1.0
HEAL_SECONDS_MAX = 3.0
# How long a command with a lost response is repeated, plus the last attempt to connect.
_DOUBT_SECONDS_MAX = 12.0
# Statuses of responses that depend on the log.
_ONCE_SENT = (200, 204, 409)
_DIFFERENCES_SHOWN = 5
_STOPPING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event of a table: the change it contains, and its metadata file."""

    position: int
    stream: str
    version: int
    command: str
    topic: str
    op: str | None
    metadata_location: str | None
    deletes_old_files: bool = False
    """Set by the table's first event."""


@dataclass(slots=True)
class Evidence:
    """The evidence of one run."""

    history: History
    dsn: str
    positions: list[int] = field(default_factory=list)
    events: list[LoggedEvent] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    """The documents of the existing metadata files, by location."""

    @classmethod
    async def gathered(cls, history: History, dsn: str) -> "Evidence":
        evidence = cls(history, dsn)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            rows = await connection.execute(
                "select notification_id, originator_id::text, originator_version, command_id::text, topic, state"
                " from icecore.events order by notification_id"
            )
            async for position, stream, version, command, topic, state in rows:
                evidence.positions.append(position)
                if topic.startswith("table."):
                    evidence.events.append(_event(position, stream, version, command, topic, orjson.loads(state)))
        evidence.files = _standing({event.metadata_location for event in evidence.events if event.metadata_location is not None})
        return evidence

    def by_op(self) -> dict[str, list[LoggedEvent]]:
        found: dict[str, list[LoggedEvent]] = defaultdict(list)
        for event in self.events:
            if event.op is not None:
                found[event.op].append(event)
        return found

    def streams(self) -> dict[str, list[LoggedEvent]]:
        found: dict[str, list[LoggedEvent]] = defaultdict(list)
        for event in self.events:
            found[event.stream].append(event)
        return found


def _standing(locations: set[str]) -> dict[str, Any]:
    files = {location: Path(location.removeprefix("file://")) for location in locations}
    return {location: orjson.loads(file.read_bytes()) for location, file in files.items() if file.exists()}


def _event(position: int, stream: str, version: int, command: str, topic: str, state: Any) -> LoggedEvent:
    properties = state["delta"]["properties"]["set"] if "delta" in state else state.get("metadata", {}).get("properties", {})
    location, deletes = state.get("metadata-location"), DELETE_OLD_FILES in properties
    return LoggedEvent(position, stream, version, command, topic, properties.get("op"), location, deletes)


def acknowledged(evidence: Evidence) -> list[str]:
    """Every change that was answered 2xx is in the log, for every table it concerned."""
    logged = evidence.by_op()
    return [
        f"{mutation.kind} {mutation.id} was acknowledged and is on {len(logged[mutation.id])} of {len(mutation.tables)} tables"
        for mutation in evidence.history.mutations
        if mutation.outcome == "ok" and len({event.stream for event in logged[mutation.id]}) < len(mutation.tables)
    ]


def once(evidence: Evidence) -> list[str]:
    """Every change takes effect once, even if it was sent several times. A change without a key is repeated only after a response that
    nothing was done.
    """
    broken = []
    for op, events in evidence.by_op().items():
        if len({event.stream for event in events}) < len(events):
            broken.append(f"{op} has {len(events)} events, at {[event.position for event in events]}")
    return broken


def linear(evidence: Evidence) -> list[str]:
    """Positions and the versions of each stream are 1..n in the order of the log."""
    broken = [] if evidence.positions == [*range(1, len(evidence.positions) + 1)] else ["positions are not 1..n"]
    for stream, events in evidence.streams().items():
        versions = [event.version for event in events]
        if versions != [*range(1, len(versions) + 1)]:
            fork = next(i for i, version in enumerate(versions, 1) if version != i)
            broken.append(f"table {stream} has version {versions[fork - 1]} where {fork} belongs")
    return broken


def predecessor(evidence: Evidence) -> list[str]:
    """Each metadata file names the file of the previous event as its predecessor, and contains the change of its own event."""
    broken = []
    for stream, events in evidence.streams().items():
        named = [event for event in events if event.metadata_location is not None]
        for before, event in itertools.pairwise(named):
            document = evidence.files.get(event.metadata_location or "")
            if document is None:
                continue
            log = [entry["metadata-file"] for entry in document["metadata-log"]]
            if not log or log[-1] != before.metadata_location:
                broken.append(f"table {stream} version {event.version}: the file follows {log[-1:]}, not {before.metadata_location}")
            if event.op is not None and document["properties"].get("op") != event.op:
                broken.append(f"table {stream} version {event.version}: the file lacks its own change")
    return broken


def refusals(evidence: Evidence) -> list[str]:
    """No change that was refused with a 4xx is in the log."""
    logged = evidence.by_op()
    return [
        f"{mutation.kind} {mutation.id} (keyed: {mutation.keyed}) was answered {refused.status} {refused.error_type} and is in the log"
        for mutation in evidence.history.mutations
        for refused in mutation.attempts
        if refused.refused and logged[mutation.id]
    ]


def nothing_done(evidence: Evidence) -> list[str]:
    """No change is in the log if all its responses said that nothing was done (503 with Retry-After, 429)."""
    logged = evidence.by_op()
    return [
        f"{mutation.kind} {mutation.id} was refused as not done, and is in the log"
        for mutation in evidence.history.mutations
        if mutation.attempts and all(attempt.nothing_done for attempt in mutation.attempts) and logged[mutation.id]
    ]


def responses(evidence: Evidence) -> list[str]:
    """Failures are 503 with Retry-After, or CommitStateUnknown without it. Every acknowledgement has its position in the log."""
    logged = evidence.by_op()
    broken = []
    for mutation in evidence.history.mutations:
        for attempt in mutation.attempts:
            if attempt.status is None or attempt.status < 500 or attempt.nothing_done:
                continue
            # A create is not a commit: clients do not delete files if it fails.
            may = {"CommitStateUnknownException"} | ({"InternalServerError"} if mutation.kind == "create" else set())
            if attempt.error_type not in may or attempt.retry_after:
                broken.append(f"{mutation.kind} {mutation.id} was answered {attempt.status} {attempt.error_type}")
        positions = [event.position for event in logged[mutation.id]]
        if mutation.outcome == "ok" and positions and mutation.position not in positions:
            broken.append(f"{mutation.kind} {mutation.id} was answered with position {mutation.position} and is at {positions}")
    return broken


def atomic(evidence: Evidence) -> list[str]:
    """Money that is transferred between tables is in exactly one of them for every reader. A transfer is one command on both tables."""
    total = evidence.history.bank_total
    broken = [
        f"as of position {read.position} the balances {read.balances} are not {total} together"
        for read in evidence.history.bank_reads
        if sum(read.balances) != total
    ]
    transfers = {mutation.id for mutation in evidence.history.mutations if mutation.kind == "transfer"}
    for op, events in evidence.by_op().items():
        if op in transfers and (len(events) != 2 or events[0].command != events[1].command):
            broken.append(f"transfer {op} is in the log as {[(event.position, event.command) for event in events]}")
    return broken


def fresh(evidence: Evidence) -> list[str]:
    """A load that was sent after an acknowledgement returns that version or a later one, from every worker."""
    return [
        f"load of {load.table} showed file {load.number} after {load.floor} had been acknowledged"
        for load in evidence.history.loads
        if load.attempt.status == 200 and load.number < load.floor
    ]


def files(evidence: Evidence) -> list[str]:
    """No table refers to a missing file, neither when it is loaded nor at the end of the run."""
    broken = [f"load of {load.table} pointed at a missing file" for load in evidence.history.loads if load.file_missing]
    broken += [
        f"position {event.position} names a missing file"
        for events in evidence.streams().values()
        for event in events
        if not events[0].deletes_old_files and event.metadata_location is not None and event.metadata_location not in evidence.files
    ]
    return broken


def kept(evidence: Evidence) -> list[str]:
    """A table that deletes its old metadata files has the current one and those that the current one names."""
    broken = []
    for stream, events in evidence.streams().items():
        location = events[-1].metadata_location
        if not events[0].deletes_old_files or location is None:
            continue
        document = evidence.files.get(location)
        if document is None:
            broken.append(f"table {stream} lost its current file, of version {events[-1].version}")
        elif absent := [entry["metadata-file"] for entry in document["metadata-log"] if entry["metadata-file"] not in evidence.files]:
            broken.append(f"table {stream} lost {absent}, which its current file names")
    return broken


def away(evidence: Evidence) -> list[str]:
    """While Postgres is unreachable, every request gets 503 in time, and requests succeed soon after it is back.

    The outcome of a commit that was sent before the outage was noticed is unknown. It is repeated before its client gets a response.
    """
    commits = [attempt for mutation in evidence.history.mutations for attempt in mutation.attempts]
    attempts = [(attempt, True) for attempt in commits] + [(load.attempt, False) for load in evidence.history.loads]
    broken = []
    for outage in evidence.history.outages:
        for attempt, is_commit in attempts:
            if not outage.began <= attempt.sent < outage.ended or attempt.error_type == "abandoned":
                continue
            sent_on = is_commit and (attempt.status in _ONCE_SENT or attempt.error_type == "CommitStateUnknownException")
            waited = (attempt.ended if sent_on else min(attempt.ended, outage.ended)) - attempt.sent
            if waited > (_DOUBT_SECONDS_MAX if sent_on else AWAY_SECONDS_MAX) + _HEARD_SECONDS_MAX:
                broken.append(f"{outage.kind}: no response for {waited:.2f} s")
            elif outage.silent and attempt.ended <= outage.ended and attempt.status != 503 and not sent_on:
                broken.append(f"{outage.kind}: {attempt.status} {attempt.error_type} after {waited:.2f} s")
        healed = healing_seconds([attempt for attempt, _ in attempts], outage.back)
        if healed > HEAL_SECONDS_MAX:
            broken.append(f"{outage.kind}: the first good response came {healed:.2f} s after its end")
    return broken


def healing_seconds(attempts: list[Attempt], back: float) -> float:
    """The time from the end of an outage to the first successful response."""
    return min((attempt.ended - back for attempt in attempts if attempt.ended > back and attempt.status in (200, 204)), default=1e9)


def graceful(evidence: Evidence) -> list[str]:
    """A worker that is stopped gracefully responds to the requests that it has received."""
    history = evidence.history
    attempts = [attempt for mutation in history.mutations for attempt in mutation.attempts if attempt.cut_off]
    return [
        f"a request sent {stop - attempt.sent:.3f} s before a worker was asked to stop was cut off"
        for stop in history.stops
        for attempt in attempts
        if attempt.sent < stop < attempt.ended < stop + _STOPPING_SECONDS
        and not any(attempt.sent < kill < attempt.ended for kill in history.kills)
    ]


async def models(evidence: Evidence) -> list[str]:
    """The read models, claims and hashes agree with the log (`icecore verify`)."""
    report = await verify(evidence.dsn)
    return [str(difference) for difference in report.differences[:_DIFFERENCES_SHOWN]]


CHECKS: dict[str, Callable[[Evidence], list[str]]] = {
    "acknowledged": acknowledged,
    "once": once,
    "linear": linear,
    "predecessor": predecessor,
    "refusals": refusals,
    "nothing done": nothing_done,
    "responses": responses,
    "atomic": atomic,
    "fresh": fresh,
    "files": files,
    "kept": kept,
    "away": away,
    "graceful": graceful,
}


async def findings(evidence: Evidence) -> dict[str, list[str]]:
    """The contradictions that each check found; empty lists are good."""
    found = {name: check(evidence) for name, check in CHECKS.items()}
    found["models"] = await models(evidence)
    return found


def unacknowledged_but_logged(mutations: list[Mutation], evidence: Evidence) -> int:
    """Changes that took effect although no client got an acknowledgement."""
    logged = evidence.by_op()
    return sum(mutation.outcome != "ok" and bool(logged[mutation.id]) for mutation in mutations)
