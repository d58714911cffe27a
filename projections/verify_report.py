"""The report of a verification: what was compared, and the differences."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from ..domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS
from ..domain.recorded import GENESIS_HASH

DIFFERENCES_MAX = 1_000
_SHOWN_CHARACTERS_MAX = 200
_HEX_BYTES_MAX = 32
_READ_MODELS = frozenset(model.table for model in (*READ_MODELS, PART_TOMBSTONES))
_ASYNCHRONOUS = {"warehouse_statistics": "statistics", "statistics_": "statistics", "search_": "search"}
"""Beginnings of the names of tables, and the option of `icecore rebuild`."""


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
        expected, found = (orjson.dumps(_plain(value)).decode() for value in (self.expected, self.found))
        return f"{where} {self.column}: expected {expected}, found {found}"

    def to_json(self) -> dict[str, Any]:
        """Values as JSON, long ones as a shortened string; null also if there is no row."""
        expected, found = _plain(self.expected), _plain(self.found)
        return {"table": self.table, "key": self.key, "column": self.column, "expected": expected, "found": found}


@dataclass(slots=True)
class VerifyReport:
    """What was compared, and what differed (`differences`, the first DIFFERENCES_MAX of `difference_count`).

    tables -- those with differences, also beyond the first. notes -- what an operator should know, and has confirmed as intended.
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
    tables: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.difference_count == 0

    @property
    def events(self) -> int:
        """The number of events: the position of the head, since positions are dense."""
        return self.head

    @property
    def advice(self) -> list[str]:
        """What to do about the differences, a sentence for each kind."""
        return list(dict.fromkeys(_advice(table) for table in sorted(self.tables)))

    def add(self, table: str, key: str, column: str | None, expected: Any, found: Any) -> None:
        self.difference_count += 1
        self.tables.add(table)
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(Difference(table, key, column, expected, found))

    def include(self, part: "VerifyReport") -> None:
        """Adds what was compared in one part of the log, and its differences."""
        self.generation = self.generation or part.generation
        self.streams += part.streams
        self.rows += part.rows
        self.claims += part.claims
        self.difference_count += part.difference_count
        self.tables |= part.tables
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
            "advice": self.advice,
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
        return "\n".join([*lines, *notes, *(f"advice: {advice}" for advice in self.advice)])


def _advice(table: str) -> str:
    """What to do about a difference in this table."""
    if table in _READ_MODELS:
        return "read models differ: run `icecore rebuild`, which computes them again from the log, then `icecore verify`"
    for prefix, option in _ASYNCHRONOUS.items():
        if table.startswith(prefix):
            return f"{option} differs: run `icecore rebuild --{option}`, which computes it again from the log, then `icecore verify`"
    if table == "events":
        return "the log was changed, and no command repairs it: restore the database from a backup"
    if table.startswith("pg_") or table == "migrations":
        return (
            "schema or privileges differ: undo the changes that the differences name; `icecore migrate` resets the server role's privileges"
        )
    return (
        "other records differ, and no command computes them again: restore the database from a backup, or see 'Event log and read models' "
        "in the documentation"
    )


def _plain(value: Any) -> Any:
    """As JSON. A value with a longer text is a string with the beginning of the text."""
    value = _converted(value)
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return value if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"


def _converted(value: Any) -> Any:
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return value if value.bit_length() < 64 else str(value)
        case bytes():
            return value.hex() if len(value) <= _HEX_BYTES_MAX else value.decode(errors="replace")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case Mapping():
            return {str(key): _converted(each) for key, each in value.items()}
        case Sequence() | Set():
            return [_converted(each) for each in value]
    return str(value)
