"""Compares JSON schemas of two documents: what one permits and the other does not.

Only structure is compared: types, formats, enumerations, members, items. Bounds of numbers, lengths and sizes are not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

FORMATS = frozenset({"uuid", "date-time", "uri"})


@dataclass(frozen=True)
class Alternative:
    """One alternative of a schema, with a single type; None: any. values -- permitted ones; None: all.

    members, items, others -- schemas; of one member several, which all apply. others -- further members: a schema, True or False.
    """

    type: str | None = None
    values: frozenset[Any] | None = None
    format: str | None = None
    required: frozenset[str] = frozenset()
    members: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    items: Any = True
    others: Any = True

    def both(self, other: "Alternative") -> "Alternative | None":
        """What both permit; None: nothing."""
        if self.type is not None and other.type is not None and self.type != other.type:
            return None
        values = self.values if other.values is None else other.values if self.values is None else self.values & other.values
        members = {name: (*self.members.get(name, ()), *other.members.get(name, ())) for name in {*self.members, *other.members}}
        return Alternative(
            self.type or other.type,
            values,
            self.format or other.format,
            self.required | other.required,
            members,
            self.items if other.items is True else other.items,
            self.others if other.others is True else other.others,
        )


class Document:
    """The schemas of a document, which refer to each other by `$ref`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def resolved(self, value: Any, *, once: bool = False) -> Any:
        """What a `$ref` refers to; the value itself if it is none. once -- may be another `$ref`."""
        while isinstance(value, Mapping) and "$ref" in value:
            found: Any = self._document
            for name in value["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            value = found
            if once:
                break
        return value

    def named(self, path: str, schemas: tuple[Any, ...]) -> str:
        """The path; from the name of a schema on, if one has it, so that a difference of this schema has one text."""
        for schema in schemas:
            while isinstance(schema, Mapping) and "$ref" in schema:
                path = f"{path.partition(' ')[0]} {schema['$ref'].rpartition('/')[2]}"
                schema = self.resolved(schema, once=True)
        return path

    def alternatives(self, schemas: tuple[Any, ...]) -> list[Alternative]:
        """The alternatives of what satisfies all the schemas."""
        found = [Alternative()]
        for schema in schemas:
            found = [merged for one in found for other in self._alternatives(schema) if (merged := one.both(other)) is not None]
        return [each for each in found if all(self.values_of(each, member) != frozenset() for member in each.required)]

    def _alternatives(self, schema: Any) -> Iterator[Alternative]:
        schema = self.resolved(schema)
        if schema is True:
            yield Alternative()
            return
        types = schema.get("type", [None])
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        own = [
            Alternative(
                each,
                None if values is None else frozenset(value for value in values if each is None or _type(value) == each),
                schema.get("format"),
                frozenset(schema.get("required", ())),
                {name: (each,) for name, each in schema.get("properties", {}).items()},
                schema.get("items", True),
                schema.get("additionalProperties", True),
            )
            for each in ([types] if isinstance(types, str) else types)
        ]
        if values is not None and types == [None]:
            own = [
                replace(own[0], type=each, values=frozenset(v for v in values if _type(v) == each)) for each in {_type(v) for v in values}
            ]
        # Null has one value.
        own = [replace(each, values=None) if each.type == "null" else each for each in own]
        more = [self.alternatives((each,)) for each in schema.get("allOf", ())]
        if choices := schema.get("oneOf", schema.get("anyOf", ())):
            more.append([each for choice in choices for each in self.alternatives((choice,))])
        for group in more:
            own = [merged for one in own for other in group if (merged := one.both(other)) is not None]
        yield from own

    def values_of(self, alternative: Alternative, member: str) -> frozenset[Any] | None:
        """The values that a member may have, if they are enumerated."""
        found = [each.values for each in self.alternatives(alternative.members.get(member, (True,)))]
        return None if None in found else frozenset(value for each in found if each is not None for value in each)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number", dict: "object", list: "array"}[type(value)]


@dataclass(frozen=True)
class Comparison:
    """`sent` are the schemas of the sender, `received` those of the receiver.

    of_responses -- also compares which members are sent that the receiver does not know, and which of its optional ones never are.
    """

    sent: Document
    received: Document
    of_responses: bool

    @property
    def _refused(self) -> str:
        return "is unknown" if self.of_responses else "is refused"

    @property
    def _required(self) -> str:
        return "may be missing" if self.of_responses else "is required"

    def differences(self, path: str, sent: Any, received: Any) -> set[str]:
        """Texts: what may be sent and is not received."""
        return self._differences(path, (sent,), (received,))

    def _differences(self, path: str, sent: tuple[Any, ...], received: tuple[Any, ...]) -> set[str]:
        path = self.received.named(path, received) if self.of_responses else self.sent.named(path, sent)
        accepted = self.received.alternatives(received)
        found: set[str] = set()
        for each in self.sent.alternatives(sent):
            for one in self._split(each, accepted):
                found |= self._of_one(path, one, accepted)
        return found

    def _split(self, one: Alternative, accepted: list[Alternative]) -> list[Alternative]:
        """An alternative for each value of the members by which the receiver distinguishes objects."""
        found = [one]
        objects = [each for each in accepted if each.type == "object"]
        if one.type != "object" or len(objects) < 2:
            return found
        for member in sorted(one.required):
            values = self.sent.values_of(one, member)
            if values is not None and len(values) > 1 and any(self.received.values_of(each, member) for each in objects):
                found = [
                    replace(each, members={**each.members, member: ({"enum": [value]},)})
                    for each in found
                    for value in sorted(values, key=str)
                ]
        return found

    def _of_one(self, path: str, one: Alternative, accepted: list[Alternative]) -> set[str]:
        candidates = [each for each in accepted if self._comparable(one, each)]
        if not candidates:
            return {f"{path}: {self._shown(one)} {self._refused}"}
        return min((self._between(path, one, each) for each in candidates), key=len)

    def _comparable(self, one: Alternative, other: Alternative) -> bool:
        if not (one.type == other.type or other.type is None or (one.type, other.type) == ("integer", "number")):
            return False
        for member in one.required & other.required:
            mine, theirs = self.sent.values_of(one, member), self.received.values_of(other, member)
            if mine is not None and theirs is not None and len(mine) == 1 and not mine & theirs:
                return False
        return True

    def _between(self, path: str, one: Alternative, other: Alternative) -> set[str]:
        found: set[str] = set()
        if other.values is not None:
            unknown = {"any other value"} if one.values is None else {repr(value) for value in one.values - other.values}
            found |= {f"{path}: {value} {self._refused}" for value in unknown}
        if other.format in FORMATS and one.format != other.format and one.values is None:
            found.add(f"{path}: must have the format {other.format}")
        if one.type == "array" and other.items is not True:
            found |= self._differences(f"{path}[]", (one.items,), (other.items,))
        if one.type == "object":
            found |= {f"{path}.{name}: {self._required}" for name in other.required - one.required}
            found |= self._of_members(path, one, other)
        return found

    def _of_members(self, path: str, one: Alternative, other: Alternative) -> set[str]:
        found: set[str] = set()
        for name, schemas in one.members.items():
            if name in other.members:
                found |= self._differences(f"{path}.{name}", schemas, other.members[name])
            elif isinstance(other.others, Mapping):
                found |= self._differences(f"{path}.{name}", schemas, (other.others,))
            elif other.others is False:
                found.add(f"{path}.{name}: {self._refused}")
            elif self.of_responses:
                found.add(f"{path}.{name}: is an addition")
        if isinstance(other.others, Mapping) and one.others is not False:
            found |= self._differences(f"{path}.*", (one.others,), (other.others,))
        if self.of_responses:
            found |= {f"{path}.{name}: is never sent" for name in other.members if name not in one.members and name not in other.required}
        return found

    def _shown(self, one: Alternative) -> str:
        fixed = {
            name: values
            for name in sorted(one.required)
            if (values := self.sent.values_of(one, name)) is not None and len(values) == 1 and name.endswith(("type", "action"))
        }
        return " ".join(f"{name}={next(iter(values))}" for name, values in fixed.items()) or str(one.type)
