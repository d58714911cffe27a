"""Transforms of partition and sort fields: the types that each accepts, according to the spec."""

import pytest

from icecore.domain.errors import IllegalArgument
from icecore.domain.metadata.transforms import bind_transform, can_transform, parse_transform

TIMESTAMPS = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
BUCKETED = {*TIMESTAMPS, "int", "long", "date", "time", "string", "binary", "fixed[4]", "decimal(9, 2)", "uuid"}
TRUNCATED = {"int", "long", "string", "binary", "decimal(9, 2)"}
WITHOUT_IDENTITY = {"variant", "geometry", "geography"}
TYPES = {*BUCKETED, *WITHOUT_IDENTITY, "boolean", "float", "double"}
TAKES = {
    "identity": TYPES - WITHOUT_IDENTITY,
    "bucket[16]": BUCKETED,
    "truncate[4]": TRUNCATED,
    "year": {*TIMESTAMPS, "date"},
    "month": {*TIMESTAMPS, "date"},
    "day": {*TIMESTAMPS, "date"},
    "hour": TIMESTAMPS,
    "void": TYPES,
    "a transform from elsewhere": TYPES,
    "bucket[x]": TYPES,
    "truncate[x]": TYPES,
}


@pytest.mark.parametrize("transform", TAKES)
@pytest.mark.parametrize("type_", sorted(TYPES))
def test_a_transform_takes_the_types_of_the_spec(transform: str, type_: str) -> None:
    """Unknown transforms are kept without a check."""
    takes = type_ in TAKES[transform]
    assert takes == can_transform(transform, type_, None)
    if takes:
        bind_transform(transform, type_)
    else:
        with pytest.raises(IllegalArgument):
            bind_transform(transform, type_)


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_a_time_of_a_timestamp_is_none_of_a_date(transform: str) -> None:
    """A transform keeps the meaning it had when it was parsed."""
    for bound, type_ in ((bound, type_) for bound in sorted(TIMESTAMPS) for type_ in sorted(TYPES)):
        assert (type_ in TIMESTAMPS) == can_transform(transform, type_, bound)
    for type_ in TYPES:
        assert (type_ == "date") == can_transform(transform, type_, "date")


@pytest.mark.parametrize(
    ("canonical", "sent"),
    [
        ("bucket[16]", "BUCKET[016]"),
        ("truncate[1]", "Truncate[1]"),
        ("identity", "IDENTITY"),
        ("void", "Void"),
        ("ZOrder[4]", "ZOrder[4]"),
        ("Bucket[x]", "Bucket[x]"),
    ],
)
def test_names_become_canonical_where_they_are_known(canonical: str, sent: str) -> None:
    """Others are kept as sent."""
    assert canonical == parse_transform(sent)


def test_a_width_is_above_zero() -> None:
    """With the reference's message."""
    for text, message in (
        ("bucket[0]", r"Invalid number of buckets: 0 \(must be > 0\)"),
        ("truncate[0]", r"Invalid truncate width: 0 \(must be > 0\)"),
    ):
        with pytest.raises(IllegalArgument, match=message):
            parse_transform(text)
