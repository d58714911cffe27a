"""What an object holds exclusively: its name in its parent, and its locations in storage."""

from collections.abc import Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from .errors import BadRequest

PLACES_MAX = 100
"""Places that one table or view holds, in all: every version carries them along."""


class NameClaim(NamedTuple):
    """A name in a scope: a warehouse's in its project, a namespace's in its parent, a table's or view's in its namespace;
    and the key of the change an open proposal is for, in its warehouse."""

    kind: Literal["warehouse", "namespace", "tabular", "proposal"]
    scope: UUID
    key: str
    owner: UUID


class LocationClaim(NamedTuple):
    """A place in storage, as a key that ends in a slash: it may not equal, contain or lie inside another owner's."""

    key: str
    owner: UUID


Claim = NameClaim | LocationClaim


def with_keys(keys: tuple[str, ...], key: str | None, path_keys: Sequence[str] | None) -> tuple[str, ...]:
    """The places of an object after an event that names `key`, its location, and `path_keys`: those it had, and what is new."""
    if key is not None and key not in keys:
        keys = (*keys, key)
    return keys if path_keys is None else (*keys, *(path for path in path_keys if path not in keys))


def check_places(places: int) -> None:
    """BadRequest where one object would hold more than PLACES_MAX."""
    if places > PLACES_MAX:
        raise BadRequest(
            f"A table or view can claim at most {PLACES_MAX} locations, former ones included: "
            "register it again to keep only those that it still names"
        )
