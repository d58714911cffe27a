"""Schema contract: an approval hook that refuses or holds changes that break the schema of a table.

A namespace declares the contract in its properties. Nested namespaces inherit each property and can override it:

    icecore.schema-contract            no-breaking-changes, or none
    icecore.schema-contract-on-breach  refuse (default), or hold: the change waits for approval
    icecore.schema-contract-renames    refuse (default), or allow: columns can be renamed
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
BREACHES_LISTED_MAX = 10

_VALUES = {
    CONTRACT: ("no-breaking-changes", "none"),
    ON_BREACH: ("refuse", "hold"),
    RENAMES: ("refuse", "allow"),
}
_DECIMAL = re.compile(r"^decimal\((\d+),\s*(\d+)\)$")
# Type promotions of the table spec ("Schema Evolution"), without decimals.
_PROMOTIONS = frozenset({("int", "long"), ("float", "double"), ("date", "timestamp"), ("date", "timestamp_ns")})


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract of a namespace."""

    binding: bool
    hold: bool
    renames: bool

    @classmethod
    def of(cls, declared: Sequence[Mapping[str, str]]) -> "Contract":
        """The contract from the properties of the namespaces, outermost first. The innermost value counts. Raises ValueError for an unknown
        value.
        """
        values = {name: properties[name] for properties in declared for name in _VALUES if name in properties}
        for name, value in values.items():
            check_word(name, value)
        return cls(values.get(CONTRACT) == "no-breaking-changes", values.get(ON_BREACH) == "hold", values.get(RENAMES) == "allow")


def check_word(name: str, value: str) -> None:
    if value not in _VALUES[name]:
        raise ValueError(f"the namespace property {name} is {value[:100]!r}: it must be {' or '.join(_VALUES[name])}")


class SchemaContract:
    """The hook. Option `hold_seconds`: how long a held change can be approved."""

    never_blocks = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - {"hold_seconds"})
        if unknown:
            raise ValueError(f"unknown option {unknown[0]} of schema-contract: its only option is hold_seconds")
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
                # A contract that cannot be parsed still refuses changes until it is corrected.
                refused.append(str(error))
                continue
            if contract.binding:
                found = breaches(*schemas, renames=contract.renames, by_name=_is_another_table(changed))
                (held if contract.hold else refused).extend(f"{'.'.join(changed.name_after)}: {breach}" for breach in found)
        if refused or invalid:
            return Refuse(_summary(invalid + refused), invalid=bool(invalid))
        return Hold(_summary(held), self._hold_seconds) if held else ALLOW


def breaches(before: Json, after: Json, *, renames: bool, by_name: bool = False) -> list[str]:
    """The breaking changes from `before` to `after`, as texts; empty if there are none.

    renames -- columns can be renamed. by_name -- columns are matched by name, because the ids of the two schemas are unrelated.
    """
    return [*_breaches(_Columns(before, by_name=by_name), _Columns(after, by_name=by_name), renames=renames or by_name)]


class _Columns:
    """The columns of a schema, nested ones included, by id or by full name."""

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
            # If a nested column is dropped with its parent, only the parent is listed.
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
            yield f"column {before.names[key]} is no longer an identifier field"


def _changed(name: str, before: Json, after: Json, *, renames: bool) -> Iterator[str]:
    if before["name"] != after["name"] and not renames:
        yield f"column {name} is renamed to {after['name']}"
    if after["required"] and not before["required"]:
        yield f"column {name} is made required"
    old, new = _kind(before["type"]), _kind(after["type"])
    if old != new and not _widens(old, new):
        yield f"column {name} changes its type from {old} to {new}"


def _kind(type_: str | Json) -> str:
    """A primitive type's name, or `struct`, `list` or `map`. The columns inside have their own ids and are compared separately."""
    return type_ if isinstance(type_, str) else str(type_["type"])


def _widens(old: str, new: str) -> bool:
    # A column of type unknown contains only nulls.
    if old == "unknown" or (old, new) in _PROMOTIONS:
        return True
    before, after = _DECIMAL.match(old), _DECIMAL.match(new)
    return before is not None and after is not None and before[2] == after[2] and int(after[1]) >= int(before[1])


def _schemas(changed: ObjectChange) -> tuple[Json, Json] | None:
    """The table's current schemas before and after; None if they are equal or the object is not a table."""
    if changed.kind != "table" or changed.before is None or changed.after is None:
        return None
    before, after = _current(changed.before), _current(changed.after)
    return None if before is after or same_schema(before, after) else (before, after)


def _current(document: Json) -> Json:
    current = document["current-schema-id"]
    found: Json = next(schema for schema in document["schemas"] if schema["schema-id"] == current)
    return found


def _is_another_table(changed: ObjectChange) -> bool:
    """Whether a registration replaced the table with another one, whose column ids are unrelated."""
    assert changed.before is not None
    assert changed.after is not None
    return bool(changed.before["table-uuid"] != changed.after["table-uuid"])


def _unreadable(changed: ObjectChange) -> Iterator[str]:
    """Invalid values of the properties that a namespace change sets."""
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
    more = f"; and {len(found) - BREACHES_LISTED_MAX} more" if len(found) > BREACHES_LISTED_MAX else ""
    return "; ".join(found[:BREACHES_LISTED_MAX]) + more
