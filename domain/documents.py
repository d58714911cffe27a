"""Metadata documents as a head and parts: splits them, computes and applies deltas, and joins bytes without parsing.

A document is a plain JSON object whose list members (and the members of `refs`) are its parts. Two documents share equal parts by
identity, so that computing a delta compares no contents.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import orjson

from .byte_pieces import trimmed

Json = dict[str, Any]

TABLE_KINDS: tuple[str, ...] = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "snapshots",
    "refs",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
    "encryption-keys",
)
"""The kinds of parts of table metadata."""
VIEW_KINDS: tuple[str, ...] = ("schemas", "versions", "version-log")
"""The kinds of parts of view metadata."""

# The order of the head's members, so that equal heads have equal bytes whatever their history. Unknown members follow, sorted.
_HEAD_MEMBERS: tuple[str, ...] = (
    "format-version",
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schema",
    "current-schema-id",
    "partition-spec",
    "default-spec-id",
    "last-partition-id",
    "default-sort-order-id",
    "properties",
    "current-snapshot-id",
    "next-row-id",
)

_TABLE_MEMBERS = frozenset(_HEAD_MEMBERS) | frozenset(TABLE_KINDS)
# Sequence numbers come with v2, row ids with v3.
_HEAD_MEMBERS_V2: tuple[str, ...] = tuple(member for member in _HEAD_MEMBERS if member != "next-row-id")
_HEAD_MEMBERS_V1: tuple[str, ...] = tuple(member for member in _HEAD_MEMBERS_V2 if member != "last-sequence-number")

# Kinds that are a JSON object; all others are lists.
_KEYED_KINDS = frozenset({"refs"})
# Written only if not empty (TableMetadataParser.toJson).
_WRITTEN_IF_ANY = frozenset({"encryption-keys"})


# If at most this many parts were added since the last join, only those are joined, and the bytes before them are not copied.
_PARTS_JOINED_EACH_TIME_MAX = 64


# They are never changed, but not frozen: creating frozen instances takes twice as long, and folding a log creates millions.
@dataclass(slots=True)
class Part:
    """One element of a document.

    ordinal -- orders the parts of its kind; unique in the stream, and never reused.
    key -- the member's name for a kind that is a JSON object (`refs`), else None.
    """

    ordinal: int
    value: Any
    key: str | None = None
    _body: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def body(self) -> bytes:
        """The element as it is written in the document: JSON, preceded by the member's name if it has one."""
        if self._body is None:
            body = orjson.dumps(self.value)
            # Cached: a document is joined at every commit, and most of its parts never change.
            self._body = trimmed(body) if self.key is None else orjson.dumps(self.key) + b":" + body
        return self._body

    @property
    def known_size(self) -> int:
        """The size of the body if it was read or made already, else 0."""
        return 0 if self._body is None else len(self._body)

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot that it is or refers to, for loads of referenced snapshots only."""
        return self.value.get("snapshot-id") if isinstance(self.value, dict) else None


def part_from_body(kind: str, ordinal: int, body: bytes) -> Part:
    """The part in a row of the read model."""
    if kind in _KEYED_KINDS:
        ((key, value),) = orjson.loads(b"{" + body + b"}").items()
        return Part(ordinal, value, key, body)
    return Part(ordinal, orjson.loads(body), None, body)


@dataclass(slots=True)
class PartsDelta:
    """The parts added, and the ordinals of the parts removed, of one kind."""

    added: tuple[Part, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(slots=True)
class Delta:
    """The difference between two successive documents: members of the head and properties set or removed, parts added or removed.

    members_set, members_removed -- of the head's members, without `properties`. Events have them as `head`.
    """

    members_set: Json = field(default_factory=dict)
    members_removed: tuple[str, ...] = ()
    properties_set: Mapping[str, str] = field(default_factory=dict)
    properties_removed: tuple[str, ...] = ()
    parts: Mapping[str, PartsDelta] = field(default_factory=dict)

    def to_json(self) -> Json:
        return {
            "head": {"set": self.members_set, "removed": list(self.members_removed)},
            "properties": {"set": dict(self.properties_set), "removed": list(self.properties_removed)},
            "parts": {
                kind: {
                    "added": [[p.ordinal, p.value] if p.key is None else [p.ordinal, p.value, p.key] for p in change.added],
                    "removed": list(change.removed),
                }
                for kind, change in self.parts.items()
            },
        }

    @classmethod
    def from_json(cls, data: Json) -> "Delta":
        return cls(
            members_set=data["head"]["set"],
            members_removed=tuple(data["head"]["removed"]),
            properties_set=data["properties"]["set"],
            properties_removed=tuple(data["properties"]["removed"]),
            parts={
                kind: PartsDelta(tuple([Part(*added) for added in change["added"]]), tuple(change["removed"]))
                for kind, change in data["parts"].items()
            },
        )


# Not frozen, for the same reason as parts.
@dataclass(slots=True)
class Document:
    """A document and its parts. `value` is the whole document as plain JSON, sharing the parts' values."""

    value: Json
    parts: Mapping[str, tuple[Part, ...]]
    next_ordinal: int
    _joined: dict[str, tuple[int, bytes]] = field(default_factory=dict, compare=False, repr=False)
    """By kind: how many of the first parts are joined already, and their bytes. Shared with later documents that only add parts."""
    _table_head: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def is_head_alone(self) -> bool:
        """Whether only the head is known, as in `head_alone`."""
        return "schemas" not in self.value


def split(value: Json, kinds: Sequence[str]) -> Document:
    """The first document of a stream. Every element becomes a part, numbered from 0 in the order of `kinds`."""
    ordinal = 0
    parts: dict[str, tuple[Part, ...]] = {}
    for kind in kinds:
        elements = _elements(kind, value.get(kind))
        parts[kind] = tuple(Part(ordinal + i, element, key) for i, (key, element) in enumerate(elements))
        ordinal += len(parts[kind])
    return Document(value, parts, ordinal)


def assemble(head: Json, parts: Mapping[str, tuple[Part, ...]], next_ordinal: int) -> Document:
    """The document made of a head and its parts."""
    value = dict(head)
    for kind, members in parts.items():
        value[kind] = _collected(kind, members)
    return Document(value, parts, next_ordinal)


def difference(before: Document, after: Json) -> Delta:
    """The delta from `before` to `after`. An element of `after` is new unless `before` contains the same object."""
    members_set: Json = {}
    for key, member in after.items():
        if key not in before.parts and key != "properties" and (key not in before.value or before.value[key] != member):
            members_set[key] = member
    members_removed = tuple(key for key in before.value if key not in after and key not in before.parts)
    old, new = before.value["properties"], after["properties"]
    parts: dict[str, PartsDelta] = {}
    ordinal = before.next_ordinal
    for kind, members in before.parts.items():
        if after[kind] is before.value[kind]:
            continue
        change = _kind_difference(kind, members, before.value[kind], after[kind], ordinal)
        if change.added or change.removed:
            parts[kind] = change
            ordinal += len(change.added)
    return Delta(
        members_set,
        members_removed,
        {k: v for k, v in new.items() if old.get(k) != v} if new is not old else {},
        tuple(k for k in old if k not in new) if new is not old else (),
        parts,
    )


def apply_delta(before: Document, delta: Delta) -> Document:
    """The document after `delta`."""
    value = {**before.value, **delta.members_set}
    for key in delta.members_removed:
        del value[key]
    if delta.properties_set or delta.properties_removed:
        properties = {**before.value["properties"], **delta.properties_set}
        for key in delta.properties_removed:
            del properties[key]
        value["properties"] = properties
    parts = dict(before.parts)
    next_ordinal = before.next_ordinal
    joined = dict(before._joined)
    for kind, change in delta.parts.items():
        if change.removed:
            joined.pop(kind, None)
            removed = set(change.removed)
            parts[kind] = tuple([p for p in parts[kind] if p.ordinal not in removed]) + change.added
            value[kind] = _collected(kind, parts[kind])
        else:
            parts[kind] += change.added
            value[kind] = _extended(kind, before.value[kind], change.added)
        for part in change.added:
            next_ordinal = max(next_ordinal, part.ordinal + 1)
    return Document(value, parts, next_ordinal, joined)


def table_head(document: Document) -> bytes:
    """The members of table metadata that are not parts, as JSON, in the form of its format version.

    v1 repeats the current schema and the default spec's fields. "No snapshot" is -1 before v3, and null from v3 on. Sequence numbers
    exist since v2, row ids since v3 (TableMetadataParser.toJson).
    """
    if document._table_head is None:
        # Cached: it is used in a row and in the file.
        document._table_head = trimmed(orjson.dumps(_table_head_value(document.value)))
    return document._table_head


def _table_head_value(value: Json) -> Json:
    version = value["format-version"]
    members = _HEAD_MEMBERS
    if version < 2:
        schema = _by_id(value["schemas"], "schema-id", value["current-schema-id"])
        spec = _by_id(value["partition-specs"], "spec-id", value["default-spec-id"])
        value = {**value, "schema": schema, "partition-spec": spec["fields"]}
        members = _HEAD_MEMBERS_V1
    elif version < 3:
        members = _HEAD_MEMBERS_V2
    head = {key: value[key] for key in members if key in value}
    if head["current-snapshot-id"] is None and version < 3:
        head["current-snapshot-id"] = -1
    if not _TABLE_MEMBERS.issuperset(value):
        head |= {key: value[key] for key in sorted(value.keys() - _TABLE_MEMBERS)}
    return head


def table_head_value(head: bytes) -> Json:
    """The inverse of `table_head`: the members in the form that all format versions share."""
    value: Json = orjson.loads(head)
    if value["current-snapshot-id"] == -1:
        value["current-snapshot-id"] = None
    if value["format-version"] < 2:
        value.setdefault("last-sequence-number", 0)
        del value["schema"], value["partition-spec"]
    if value["format-version"] < 3:
        value["next-row-id"] = 0
    return value


def head_alone(head: bytes, next_ordinal: int) -> Document:
    """Table metadata of which only the head is known, for changes that leave the document as it is."""
    return Document(table_head_value(head), dict.fromkeys(TABLE_KINDS, ()), next_ordinal, _table_head=head)


def document_pieces(head: bytes, bodies: Mapping[str, Sequence[bytes]], kinds: Sequence[str]) -> list[bytes]:
    """The written document in pieces: the head's members, then each kind. `bodies` has each kind's parts, with commas between them."""
    written = [head[:-1]]
    for kind in kinds:
        body = bodies.get(kind, ())
        if any(body) or kind not in _WRITTEN_IF_ANY:
            opening, closing = (b"{", b"}") if kind in _KEYED_KINDS else (b"[", b"]")
            written += [b',"', kind.encode(), b'":', opening, *body, closing]
    written.append(b"}")
    return written


def table_size(document: Document, *, without: str | None = None) -> int:
    """The size of a table's written document, without the kinds' names. Joins nothing. `without`: a kind that is not counted."""
    size = len(table_head(document))
    for kind, members in document.parts.items():
        if kind != without:
            count, first = document._joined.get(kind, (0, b""))
            size += len(first) + sum([len(part.body) + 1 for part in members[count:]])
    return size


def joined_bodies(document: Document) -> dict[str, Sequence[bytes]]:
    """Each kind's bodies with commas between them, as `document_pieces` takes them."""
    return {kind: _joined(document, kind, members) for kind, members in document.parts.items()}


def shares_most_bytes(before: Document, after: Document) -> bool:
    """Whether the JSON of both, if both were written, has more than half of its bytes in common in memory."""
    joined = before._joined.items()
    shared = sum(len(bodies) for kind, (_, bodies) in joined if after._joined.get(kind, (0, b""))[1] is bodies)
    return 2 * shared >= sum(len(bodies) for _, (_, bodies) in joined)


def _joined(document: Document, kind: str, members: tuple[Part, ...]) -> Sequence[bytes]:
    count, first = document._joined.get(kind, (0, b""))
    if count == len(members):
        return (first,)
    rest = b",".join([part.body for part in members[count:]])
    if count > _PARTS_JOINED_EACH_TIME_MAX >= len(members) - count:
        return (first, b",", rest)
    whole = first + b"," + rest if first else rest
    document._joined[kind] = (len(members), whole)
    return (whole,)


def _elements(kind: str, members: Any) -> list[tuple[str | None, Any]]:
    if not members:
        return []
    if kind in _KEYED_KINDS:
        return list(members.items())
    return [(None, member) for member in members]


def _collected(kind: str, members: Iterable[Part]) -> Any:
    if kind in _KEYED_KINDS:
        return {part.key: part.value for part in members}
    return [part.value for part in members]


def _extended(kind: str, members: Any, added: Iterable[Part]) -> Any:
    """As `_collected` if no part was removed, without iterating over the parts before."""
    return members | {part.key: part.value for part in added} if kind in _KEYED_KINDS else members + [part.value for part in added]


def _kind_difference(kind: str, before: tuple[Part, ...], value: Any, after: Any, ordinal: int) -> PartsDelta:
    # Almost every change only appends: then all old elements are a common prefix.
    if kind not in _KEYED_KINDS and len(after) >= len(value) and all(map(is_, value, after)):
        return PartsDelta(tuple([Part(ordinal + i, element) for i, element in enumerate(after[len(value) :])]))
    known = {(id(p.value), p.key): p for p in before}
    kept: set[int] = set()
    added: list[Part] = []
    last = -1
    for key, element in _elements(kind, after):
        part = known.get((id(element), key))
        # In a list, an old element after a new one is removed and added again, because ordinals define the order.
        if part is not None and (key is not None or (part.ordinal > last and not added)):
            kept.add(part.ordinal)
            last = part.ordinal
        else:
            added.append(Part(ordinal + len(added), element, key))
    return PartsDelta(tuple(added), tuple(p.ordinal for p in before if p.ordinal not in kept))


def _by_id(members: list[Json], id_key: str, wanted: int) -> Json:
    return next(member for member in members if member[id_key] == wanted)
