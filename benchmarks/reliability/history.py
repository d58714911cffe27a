"""What clients sent and received, with times: one record per operation, and the same as invoke/ok/fail/info lines."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import orjson

DELETE_OLD_FILES = "write.metadata.delete-after-commit.enabled"

Outcome = Literal["ok", "fail", "info"]


@dataclass(slots=True)
class Attempt:
    """One request; times in seconds of the monotonic clock. No status: there was no response."""

    sent: float
    ended: float = 0.0
    status: int | None = None
    error_type: str = ""
    retry_after: bool = False

    @property
    def nothing_done(self) -> bool:
        """The server answered that nothing was done and that the request can be repeated."""
        return self.status == 429 or (self.status == 503 and self.retry_after)

    @property
    def cut_off(self) -> bool:
        """The connection ended before the response, and not by the client."""
        return self.status is None and self.error_type not in ("abandoned", "TimeoutError")

    @property
    def refused(self) -> bool:
        """The server refused the request permanently."""
        return self.status is not None and 400 <= self.status < 500 and self.status != 429


@dataclass(slots=True)
class Mutation:
    """One logical change with one id, which the log's events contain as the property `op`. It is repeated until its outcome is known or it
    is abandoned.

    outcome -- ok: answered 2xx; fail: the server answered that nothing was done; info: unknown.
    numbers -- of the metadata files in the responses, by table.
    """

    id: str
    kind: str
    client: int
    tables: tuple[str, ...]
    keyed: bool
    attempts: list[Attempt] = field(default_factory=list)
    outcome: Outcome = "info"
    position: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Load:
    """One load of a table. floor -- the newest file number in any response when the load was sent."""

    client: int
    table: str
    floor: int
    attempt: Attempt
    number: int = -1
    file_missing: bool = False


@dataclass(slots=True)
class BankRead:
    """The balances of all accounts, read as of the same position."""

    position: int
    balances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which Postgres was unavailable. silent -- it did not respond at all. back -- when it accepted connections again."""

    kind: str
    began: float
    ended: float
    back: float
    silent: bool = True


@dataclass(slots=True)
class History:
    """The history of one run."""

    mutations: list[Mutation] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    bank_reads: list[BankRead] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    bank_total: int = 0
    started: float = field(default_factory=time.monotonic)

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    @property
    def acknowledged(self) -> int:
        return sum(mutation.outcome == "ok" for mutation in self.mutations)

    def kills_in_flight(self) -> int:
        """Kills of a worker that interrupted at least one commit in flight."""
        cut = [attempt for mutation in self.mutations for attempt in mutation.attempts if attempt.cut_off]
        return sum(any(attempt.sent < kill <= attempt.ended < kill + 0.5 for attempt in cut) for kill in self.kills)

    def save(self, path: Path) -> None:
        """Writes invoke, ok, fail and info lines in the order of their times (seconds since the run began)."""
        lines: list[tuple[float, dict[str, object]]] = []
        for mutation in self.mutations:
            name = {"process": mutation.client, "f": mutation.kind, "op": mutation.id, "tables": mutation.tables, "keyed": mutation.keyed}
            for number, attempt in enumerate(mutation.attempts, 1):
                lines.append((attempt.sent, {"type": "invoke", **name, "attempt": number}))
                last = number == len(mutation.attempts)
                response = {"status": attempt.status, "error": attempt.error_type, "retry-after": attempt.retry_after}
                known = {"type": mutation.outcome if last else "info", "position": mutation.position if last else None}
                lines.append((attempt.ended, {**name, "attempt": number, **response, **known}))
        for load in self.loads:
            name = {"process": load.client, "f": "load", "tables": (load.table,)}
            lines.append((load.attempt.sent, {"type": "invoke", **name, "floor": load.floor}))
            done = "ok" if load.attempt.status == 200 else "fail"
            lines.append((load.attempt.ended, {"type": done, **name, "status": load.attempt.status, "number": load.number}))
        for read in self.bank_reads:
            lines.append((self.started, {"type": "ok", "f": "bank", **asdict(read)}))
        for outage in self.outages:
            lines.append((outage.began, {"type": "info", "f": "outage", "kind": outage.kind, "seconds": outage.ended - outage.began}))
        lines += [(kill, {"type": "info", "f": "kill"}) for kill in self.kills]
        lines += [(stop, {"type": "info", "f": "stop"}) for stop in self.stops]
        lines.sort(key=lambda line: line[0])
        with path.open("wb") as file:
            for at, fields in lines:
                file.write(orjson.dumps({"t": round(at - self.started, 6), **fields}) + b"\n")
