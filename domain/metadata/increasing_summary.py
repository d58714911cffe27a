"""A rule that a table can have: the value of one key in the summaries of its snapshots increases. Summaries without the key are permitted.

A job that records its progress in the summaries of its commits then has its checkpoint in the table itself: of two runs that commit
the same piece of work, the second is refused. A commit can also say on which value its work is based (PREVIOUS_SUFFIX): then neither an
overlap nor a gap is possible if the runs divide the work differently.
"""

from collections.abc import Iterable
from typing import Final

from ..errors import BadRequest, SummaryOutOfOrder
from .fields import Json

KEY_PROPERTY: Final = "icecore.increasing-summary-key"
"""The table property that names the key of the summaries. Values are whole numbers from 0 to 2⁶³−1."""
VALUE_PROPERTY: Final = "icecore.last-summary-value"
"""The table property with the last value. The catalog sets it, so that it outlives the expiry of the snapshot. A value that a client gives
together with a new key is dropped."""
PREVIOUS_SUFFIX: Final = ".previous"
"""A summary with the key may also have the key with this suffix: the last value on which the commit is based."""
_VALUE_MAX = 2**63 - 1
_DIGITS_MAX = 19


def apply_increasing_summary(base: Json | None, metadata: Json) -> Json:
    """The document after a change with the last value in VALUE_PROPERTY; `metadata` itself if it needs none or has it already.

    base -- the document before the change; None for a new table. metadata -- the document after it.
    A last value is removed when the table gets another key or none. Raises BadRequest for a value that is not a whole number and if the
    client changes VALUE_PROPERTY, SummaryOutOfOrder for a value that is not above the last one and for a previous value that is not
    the last one.
    """
    before = {} if base is None else base["properties"]
    after = metadata["properties"]
    key_before, key = before.get(KEY_PROPERTY), after.get(KEY_PROPERTY)
    if base is not None and key_before == key and before.get(VALUE_PROPERTY) != after.get(VALUE_PROPERTY):
        raise BadRequest(f"Invalid properties: {VALUE_PROPERTY} is set by the catalog")
    if key_before is None and key is None:
        return metadata
    added = [*_added_summaries(base, metadata)]
    last = None if key_before is None else _increased(key_before, _number(before.get(VALUE_PROPERTY)), added)
    if key != key_before:
        last = None if key is None else _increased(key, None, added)
    value = None if last is None else str(last)
    if after.get(VALUE_PROPERTY) == value:
        return metadata
    kept = {name: each for name, each in after.items() if name != VALUE_PROPERTY}
    return {**metadata, "properties": kept if value is None else {**kept, VALUE_PROPERTY: value}}


def _added_summaries(base: Json | None, metadata: Json) -> Iterable[Json]:
    """The summaries of the snapshots that the change adds, in their order."""
    before = () if base is None else base["snapshots"]
    if before is metadata["snapshots"]:
        return
    present = frozenset(each["snapshot-id"] for each in before)
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] not in present:
            yield snapshot.get("summary") or {}


def _increased(key: str, last: int | None, summaries: Iterable[Json]) -> int | None:
    """The last value after `summaries`."""
    for summary in summaries:
        if key in summary:
            value = _number(summary[key])
            if value is None:
                raise BadRequest(f"Invalid snapshot: the value of {key[:200]!r} in its summary must be a whole number from 0 to 2^63-1")
            if last is not None and value <= last:
                raise SummaryOutOfOrder(
                    f"The value of {key[:200]!r} in the snapshot summary is {value}, but must be greater than {last}, the value of the "
                    "last commit"
                )
            _check_previous(f"{key}{PREVIOUS_SUFFIX}", last, summary)
            last = value
    return last


def _check_previous(key: str, last: int | None, summary: Json) -> None:
    """Without a last value there is nothing to compare with."""
    if key not in summary:
        return
    previous = _number(summary[key])
    if previous is None:
        raise BadRequest(f"Invalid snapshot: the value of {key[:200]!r} in its summary must be a whole number from 0 to 2^63-1")
    if last is not None and previous != last:
        raise SummaryOutOfOrder(
            f"The value of {key[:200]!r} in the snapshot summary is {previous}, but must be {last}, the value of the last commit"
        )


def _number(text: object) -> int | None:
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    value = int(text)
    return value if value <= _VALUE_MAX else None
