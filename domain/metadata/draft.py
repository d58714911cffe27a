"""A document in the making: the base it starts from, the copy that changes, and which of its lists are its own already."""

from typing import Any

from ..errors import CatalogError, CommitFailed, ValidationFailed
from .fields import Json


def empty_metadata(format_version: int) -> Json:
    """The canonical inner form of a table that has nothing yet."""
    return {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
        "encryption-keys": [],
        "next-row-id": 0,
    }


class Draft:
    """The working copy that the parts of the table metadata builder share.

    base -- the document before, never touched; None for a new table.
    document -- its shallow copy; lists are copied at most once, when they first change.
    owned -- the keys whose lists are such copies.
    changed -- whether there was an update that counts as a change.
    now_ms -- the time of the change; the last update of a table never goes back.
    """

    def __init__(self, base: Json | None, format_version: int, now_ms: int) -> None:
        self.base = base
        self.document: Json = dict(base) if base is not None else empty_metadata(format_version)
        self.owned: set[str] = set()
        self.changed = False
        # A clock behind the one that wrote the version before must not turn time back.
        self.now_ms = now_ms if base is None else max(now_ms, base["last-updated-ms"])

    def set(self, key: str, value: Any) -> None:
        """A new value for a key of the document."""
        self.document[key] = value
        self.changed = True

    def own_list(self, key: str) -> list[Json]:
        """The list of parts to change in place."""
        if key not in self.owned:
            self.document[key] = list(self.document[key])
        self.touch(key)
        owned: list[Json] = self.document[key]
        return owned

    def touch(self, key: str) -> None:
        """The list of this key has changed, or will have been rebuilt at the end."""
        self.owned.add(key)
        self.changed = True

    def stale(self, message: str) -> CatalogError:
        """The refusal of values that rest on an older state: the client may refresh and try again, unless it is creating the table."""
        return CommitFailed(f"Validation failed, please retry: {message}") if self.base is not None else ValidationFailed(message)
