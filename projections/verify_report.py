"""The report of a verification: what was compared, and the differences."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.recorded import GENESIS_HASH

DIFFERENCES_MAX = 1_000
_SHOWN_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the log and the database: `expected` by the log, `found` in `column` of the row `key` of `table`.

    column -- None if a whole row is missing (`found` is None) or surplus (`expected` is None).
    """

    table: str
    key: str
    column: str | None
    expected: Any
    found: Any

    def __str__(self) -> str:
        where = f"{self.table} [{self.key}]"
        if self.column is None:
            return f"{where}: row is missing" if self.found is None else f"{where}: row should not be there"
        return f"{where} {self.column}: expected {_shown(self.expected)}, found {_shown(self.found)}"

    def to_json(self) -> dict[str, Any]:
        """Values as strings; null if there is no row."""
        expected, found = (None if self.column is None and value is None else _shown(value) for value in (self.expected, self.found))
        return {"table": self.table, "key": self.key, "column": self.column, "expected": expected, "found": found}


@dataclass(slots=True)
class VerifyReport:
    """What was compared, and what differed (`differences`, the first DIFFERENCES_MAX of `difference_count`).

    notes -- what an operator should know, and has confirmed as intended.
    """

    head: int = 0
    head_hash: bytes = GENESIS_HASH
    generation: int = 0
    streams: int = 0
    rows: int = 0
    claims: int = 0
    commands: int = 0
    seconds: float = 0.0
    difference_count: int = 0
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.difference_count == 0

    @property
    def events(self) -> int:
        """The number of events: the position of the head, since positions are dense."""
        return self.head

    def add(self, table: str, key: str, column: str | None, expected: Any, found: Any) -> None:
        self.difference_count += 1
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(Difference(table, key, column, expected, found))

    def include(self, part: "VerifyReport") -> None:
        """Adds what was compared in one part of the log, and its differences."""
        self.generation = self.generation or part.generation
        self.streams += part.streams
        self.rows += part.rows
        self.claims += part.claims
        self.difference_count += part.difference_count
        self.differences += part.differences[: DIFFERENCES_MAX - len(self.differences)]

    def to_json(self) -> dict[str, Any]:
        """The whole report; `differences` has the first DIFFERENCES_MAX."""
        return {
            "ok": self.ok,
            "position": self.head,
            "hash": self.head_hash.hex(),
            "generation": self.generation,
            "events": self.events,
            "streams": self.streams,
            "commands": self.commands,
            "rows": self.rows,
            "claims": self.claims,
            "seconds": self.seconds,
            "difference-count": self.difference_count,
            "differences": [each.to_json() for each in self.differences],
            "notes": self.notes,
        }

    def __str__(self) -> str:
        compared = (
            f"{self.events} events in {self.streams} streams, {self.commands} commands, {self.rows} rows of generation {self.generation}, "
            f"{self.claims} claims, in {self.seconds:.1f} s; the hash at position {self.head} is {self.head_hash.hex()}"
        )
        notes = [f"note: {note}" for note in self.notes]
        if self.ok:
            return "\n".join([f"no difference: {compared}", *notes])
        lines = [f"{self.difference_count} difference{'' if self.difference_count == 1 else 's'}: {compared}", *map(str, self.differences)]
        if self.difference_count > len(self.differences):
            lines.append(f"… and {self.difference_count - len(self.differences)} more")
        return "\n".join([*lines, *notes])


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.hex() if len(value) <= 32 else value.decode(errors="replace")
    text = str(value) if isinstance(value, datetime | UUID) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"
