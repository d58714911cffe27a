"""Claims: what an object holds exclusively, that is its name in its parent and its storage locations."""

from collections.abc import Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from .errors import BadRequest

LOCATIONS_MAX = 100
"""Limit on the locations that one table or view claims: each version's row lists all of them."""


class NameClaim(NamedTuple):
    """A name in a scope: a project's on the server, a warehouse's in its project, a namespace's in its parent, a table's or view's in its
    namespace; also the command key of an open proposal in its warehouse, and the id of a soft-deleted table, view or
    namespace, which keeps the namespace that it is in."""

    kind: Literal["project", "warehouse", "namespace", "tabular", "soft-deleted", "proposal"]
    scope: UUID
    key: str
    owner: UUID


class LocationClaim(NamedTuple):
    """A storage location, as a key that ends in a slash. It must not overlap a location of another owner, except that locations of
    tables and views may be inside a namespace's."""

    key: str
    owner: UUID
    kind: Literal["tabular", "namespace"] = "tabular"


Claim = NameClaim | LocationClaim


def location_keys_after(keys: tuple[str, ...], key: str | None, path_keys: Sequence[str] | None) -> tuple[str, ...]:
    """The locations of an object after an event with `key` (its location) and `path_keys`: those before, and the new ones."""
    if key is not None and key not in keys:
        keys = (*keys, key)
    return keys if path_keys is None else (*keys, *(path for path in path_keys if path not in keys))


def check_location_count(count: int) -> None:
    """Raises BadRequest if one object would claim more than LOCATIONS_MAX locations."""
    if count > LOCATIONS_MAX:
        raise BadRequest(
            f"A table or view can claim at most {LOCATIONS_MAX} locations, including its former ones. To give those up, unregister and "
            "register the table again, or drop and register the view again"
        )
