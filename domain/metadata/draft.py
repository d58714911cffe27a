"""The working copy of a document: its base, the copy, and the lists that have been copied already."""

from typing import Any

from ..errors import CatalogError, CommitFailed, ValidationFailed
from .fields import Json


def empty_metadata(format_version: int) -> Json:
    """The canonical inner form of an empty table."""
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
    """The working copy that TableMetadataBuilder, ColumnsBuilder and HistoryBuilder share.

    base -- the document before, which is not modified; None for a new table.
    document -- a shallow copy of it. Each list is copied at most once, at its first change.
    owned -- the keys of these lists.
    changed -- whether any update changed something.
    now_ms -- the time of the change, but not before the table's last update.
    """

    def __init__(self, base: Json | None, format_version: int, now_ms: int) -> None:
        self.base = base
        self.document: Json = dict(base) if base is not None else empty_metadata(format_version)
        self.owned: set[str] = set()
        self.changed = False
        # The clock of this process may be behind that of the previous update.
        self.now_ms = now_ms if base is None else max(now_ms, base["last-updated-ms"])

    def set(self, key: str, value: Any) -> None:
        """Sets a member of the document."""
        self.document[key] = value
        self.changed = True

    def own_list(self, key: str) -> list[Json]:
        """The list with this key, as a copy that can be modified."""
        if key not in self.owned:
            self.document[key] = list(self.document[key])
        self.touch(key)
        owned: list[Json] = self.document[key]
        return owned

    def touch(self, key: str) -> None:
        """Marks the list with this key as changed and as a copy."""
        self.owned.add(key)
        self.changed = True

    def stale_error(self, message: str) -> CatalogError:
        """The error for values based on an older state. The client may refresh and retry, unless it creates the table."""
        return CommitFailed(f"Validation failed, please retry: {message}") if self.base is not None else ValidationFailed(message)
