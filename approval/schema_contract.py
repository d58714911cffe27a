"""Schema contract: an approval hook that keeps tables of a namespace readable by whoever reads them now, where the namespace promises it.

A namespace declares the promise by its properties; those below it inherit each of them, and may say otherwise for themselves:

    icecore.schema-contract            no-breaking-changes, or none
    icecore.schema-contract-on-breach  refuse (where nothing is said), or hold: the change waits for approval
    icecore.schema-contract-renames    refuse (where nothing is said), or allow: a column may get another name
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..domain.documents import Json
from ..domain.metadata.schemas import SchemaIndex, same_schema
from .contract import ALLOW, Hold, ObjectChange, ProposedChange, Refuse, Verdict

CONTRACT = "icecore.schema-contract"
ON_BREACH = "icecore.schema-contract-on-breach"
RENAMES = "icecore.schema-contract-renames"
HOLD_SECONDS_DEFAULT = 7 * 24 * 3600.0
BREACHES_TOLD_MAX = 10

_VALUES = {
    CONTRACT: ("no-breaking-changes", "none"),
    ON_BREACH: ("refuse", "hold"),
    RENAMES: ("refuse", "allow"),
}
_DECIMAL = re.compile(r"^decimal\((\d+),\s*(\d+)\)$")
# What the table spec allows a column to be widened to, decimals apart ("Schema Evolution").
_PROMOTIONS = frozenset({("int", "long"), ("float", "double"), ("date", "timestamp"), ("date", "timestamp_ns")})


@dataclass(frozen=True, slots=True)
class Contract:
    """What holds for a namespace."""

    binding: bool
    hold: bool
    renames: bool

    @classmethod
    def of(cls, declared: Sequence[Mapping[str, str]]) -> "Contract":
        """Of what is declared from the outermost namespace on: the innermost word counts. ValueError for a word nobody knows."""
        said = {name: properties[name] for properties in declared for name in _VALUES if name in properties}
        for name, value in said.items():
            check_word(name, value)
        return cls(said.get(CONTRACT) == "no-breaking-changes", said.get(ON_BREACH) == "hold", said.get(RENAMES) == "allow")


def check_word(name: str, value: str) -> None:
    if value not in _VALUES[name]:
        raise ValueError(f"the namespace property {name} is {value[:100]!r}: it must be {' or '.join(_VALUES[name])}")


class SchemaContract:
    """The hook. Option `hold_seconds`: how long a change that is held may be approved."""

    never_blocks = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - {"hold_seconds"})
        if unknown:
            raise ValueError(f"schema-contract has no option {unknown[0]}; it has hold_seconds")
        self._hold_seconds = float(options.get("hold_seconds", HOLD_SECONDS_DEFAULT))
        if not self._hold_seconds > 0:
            raise ValueError("hold_seconds must be more than 0")

    async def review(self, change: ProposedChange) -> Verdict:
        refused: list[str] = []
        invalid: list[str] = []
        held: list[str] = []
        for changed in change.objects:
            if changed.kind == "namespace":
                invalid += _unreadable(changed)
                continue
            schemas = _schemas(changed)
            if schemas is None:
                continue
            assert changed.name_after is not None
            try:
                contract = Contract.of(await change.namespace_properties(changed.name_after[:-1]))
            except ValueError as error:
                # Whoever declared it meant a promise: it is kept until it can be read.
                refused.append(str(error))
                continue
            if contract.binding:
                found = breaches(*schemas, renames=contract.renames, by_name=_is_another_table(changed))
                (held if contract.hold else refused).extend(f"{'.'.join(changed.name_after)}: {breach}" for breach in found)
        if refused or invalid:
            return Refuse(_summary(invalid + refused), invalid=bool(invalid))
        return Hold(_summary(held), self._hold_seconds) if held else ALLOW


def breaches(before: Json, after: Json, *, renames: bool, by_name: bool = False) -> list[str]:
    """What readers of `before` do not find in `after`, in words; empty where they find it all.

    renames -- whether a column may get another name. by_name -- the ids of the two mean different things: names are compared instead.
    """
    return [*_breaches(_Columns(before, by_name=by_name), _Columns(after, by_name=by_name), renames=renames or by_name)]


class _Columns:
    """The columns of a schema, nested ones too, by what they are recognised by: their ids, or their full names."""

    def __init__(self, schema: Json, *, by_name: bool) -> None:
        index = SchemaIndex(schema)
        self.keys: dict[int, Any] = {field_id: index.names[field_id] if by_name else field_id for field_id in index.fields}
        self.fields: dict[Any, Json] = {self.keys[field_id]: field for field_id, field in index.fields.items()}
        self.names: dict[Any, str] = {self.keys[field_id]: name for field_id, name in index.names.items()}
        self.parents: dict[Any, Any] = {self.keys[field_id]: self.keys[parent] for field_id, parent in index.parents.items()}
        self.identifiers = {self.keys[field_id] for field_id in schema.get("identifier-field-ids", ())}


def _breaches(before: _Columns, after: _Columns, *, renames: bool) -> Iterator[str]:
    for key, field in before.fields.items():
        parent = before.parents.get(key)
        if key not in after.fields:
            # Of a nested column that goes with the one around it, the outer one is named.
            if parent is None or parent in after.fields:
                yield f"column {before.names[key]} is dropped"
            continue
        yield from _changed(before.names[key], field, after.fields[key], renames=renames)
        if after.parents.get(key) != parent:
            yield f"column {before.names[key]} is moved to {after.names[key]}"
    for key, field in after.fields.items():
        parent = after.parents.get(key)
        is_outermost = key not in before.fields and (parent is None or parent in before.fields)
        if is_outermost and field["required"] and field.get("initial-default") is None:
            yield f"column {after.names[key]} is added as required without a default for existing rows"
    for key in sorted(before.identifiers - after.identifiers, key=str):
        if key in after.fields:
            yield f"column {before.names[key]} is not an identifier field any more"


def _changed(name: str, before: Json, after: Json, *, renames: bool) -> Iterator[str]:
    if before["name"] != after["name"] and not renames:
        yield f"column {name} is renamed to {after['name']}"
    if after["required"] and not before["required"]:
        yield f"column {name} is made required"
    old, new = _kind(before["type"]), _kind(after["type"])
    if old != new and not _widens(old, new):
        yield f"column {name} changes its type from {old} to {new}"


def _kind(type_: str | Json) -> str:
    """A primitive type's name, or which nested type it is: what lies inside has ids of its own."""
    return type_ if isinstance(type_, str) else str(type_["type"])


def _widens(old: str, new: str) -> bool:
    # A column of type unknown holds nothing but nulls.
    if old == "unknown" or (old, new) in _PROMOTIONS:
        return True
    before, after = _DECIMAL.match(old), _DECIMAL.match(new)
    return before is not None and after is not None and before[2] == after[2] and int(after[1]) >= int(before[1])


def _schemas(changed: ObjectChange) -> tuple[Json, Json] | None:
    """A table's current schemas before and after, where they differ; None for everything else."""
    if changed.kind != "table" or changed.before is None or changed.after is None:
        return None
    before, after = _current(changed.before), _current(changed.after)
    return None if before is after or same_schema(before, after) else (before, after)


def _current(document: Json) -> Json:
    current = document["current-schema-id"]
    found: Json = next(schema for schema in document["schemas"] if schema["schema-id"] == current)
    return found


def _is_another_table(changed: ObjectChange) -> bool:
    """A registered file may be of another table, whose ids count other columns."""
    assert changed.before is not None
    assert changed.after is not None
    return bool(changed.before["table-uuid"] != changed.after["table-uuid"])


def _unreadable(changed: ObjectChange) -> Iterator[str]:
    """What a namespace is about to declare and nobody could read."""
    declared = {} if changed.after is None else changed.after["properties"]
    before = {} if changed.before is None else changed.before["properties"]
    for name in _VALUES:
        value = declared.get(name)
        if value is not None and value != before.get(name):
            try:
                check_word(name, value)
            except ValueError as error:
                yield str(error)


def _summary(found: Sequence[str]) -> str:
    more = f"; and {len(found) - BREACHES_TOLD_MAX} more" if len(found) > BREACHES_TOLD_MAX else ""
    return "; ".join(found[:BREACHES_TOLD_MAX]) + more
