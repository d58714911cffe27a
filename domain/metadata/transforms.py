"""Partition and sort transforms: their canonical names and the types they can be used on (table spec, "Partition Transforms")."""

import re

from ..errors import IllegalArgument
from .fields import INT_MAX
from .types import TypeJson, describe_type, is_primitive, type_id

VOID = "void"

_WITH_WIDTH = re.compile(r"(\w+)\[(\d+)\]", re.ASCII)
_PLAIN = frozenset(("identity", "year", "month", "day", "hour", VOID))

_TIMESTAMPS = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
_BUCKETED = _TIMESTAMPS | {"int", "long", "date", "time", "string", "binary", "fixed", "decimal", "uuid"}
_TRUNCATED = frozenset(("int", "long", "string", "binary", "decimal"))
_WITHOUT_IDENTITY = frozenset(("variant", "geometry", "geography"))


def parse_transform(text: str) -> str:
    """The canonical name: `BUCKET[016]` becomes `bucket[16]`. An unknown transform is kept unchanged, as the spec requires."""
    if match := _WITH_WIDTH.fullmatch(text):
        kind, width = match.group(1).lower(), _width(match.group(2))
        if kind == "truncate" and width <= 0:
            raise IllegalArgument(f"Invalid truncate width: {width} (must be > 0)")
        if kind == "bucket" and width <= 0:
            raise IllegalArgument(f"Invalid number of buckets: {width} (must be > 0)")
        if kind in ("truncate", "bucket"):
            return f"{kind}[{width}]"
    return text.lower() if text.lower() in _PLAIN else text


def _width(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(INT_MAX)) or int(significant) > INT_MAX:
        raise IllegalArgument(f'For input string: "{digits}"')
    return int(significant)


def bind_transform(transform: str, source: TypeJson) -> None:
    """Refuses a transform that does not exist for the source type (Java `Transforms.fromString(type, …)`)."""
    kind = transform.partition("[")[0]
    source_id = type_id(source)
    described = describe_type(source)
    if kind == "bucket" and source_id not in _BUCKETED and _is_known(transform):
        raise IllegalArgument(f"Cannot bucket by type: {described}")
    if kind == "truncate" and source_id not in _TRUNCATED and _is_known(transform):
        raise IllegalArgument(f"Cannot truncate type: {described}")
    if transform == "identity" and source_id in _WITHOUT_IDENTITY:
        raise IllegalArgument(f"Unsupported type for identity: {described}")
    if transform in ("year", "month", "day") and source_id not in _TIMESTAMPS | {"date"}:
        raise IllegalArgument(f"Unsupported type: {described}")
    if transform == "hour" and source_id not in _TIMESTAMPS:
        raise IllegalArgument(f"Unsupported type: {described}")


def can_transform(transform: str, source: TypeJson, bound: TypeJson | None) -> bool:
    """Whether the transform accepts values of type `source`.

    bound -- the type of the source column in the schema to which the transform was bound (`bound_to` of check_spec); None if it has none.
        `year`, `month` and `day` are different functions for dates and timestamps, so a bound type may not change between the two.
    """
    source_id = type_id(source)
    if transform == "identity":
        return is_primitive(source) and source_id not in _WITHOUT_IDENTITY
    if transform in ("year", "month", "day", "hour"):
        if bound is not None:
            return source_id in _TIMESTAMPS if type_id(bound) in _TIMESTAMPS else source_id == "date"
        return source_id in _TIMESTAMPS or (source_id == "date" and transform != "hour")
    if transform.startswith("bucket[") and _is_known(transform):
        return source_id in _BUCKETED
    if transform.startswith("truncate[") and _is_known(transform):
        return source_id in _TRUNCATED
    return True


def _is_known(transform: str) -> bool:
    """Whether the transform is known: `bucket[16]` is, `bucket[x]` is not."""
    return _WITH_WIDTH.fullmatch(transform) is not None
