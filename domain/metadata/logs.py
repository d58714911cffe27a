"""The snapshot log and the metadata log of a table: adding, trimming and ordering entries, and deleting old metadata files."""

from collections.abc import Container, Mapping, Sequence

from ..errors import IllegalArgument, ValidationFailed
from .fields import Json
from .properties import (
    METADATA_DELETE_AFTER_COMMIT,
    METADATA_PREVIOUS_VERSIONS_MAX,
    METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT,
    property_as_int,
)

CLOCK_SKEW_MS_MAX = 60_000
"""How far a log entry may be before its predecessor, because the clocks of committing machines differ."""


def append_metadata_log(log: list[Json], previous_location: str, previous_updated_ms: int, properties: Mapping[str, str]) -> list[Json]:
    """The log with the previous metadata file appended and its oldest entries removed (write.metadata.previous-versions-max)."""
    entries_max = max(1, property_as_int(properties, METADATA_PREVIOUS_VERSIONS_MAX, METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT))
    kept = log[len(log) - entries_max + 1 :] if len(log) >= entries_max else log
    return [*kept, {"timestamp-ms": previous_updated_ms, "metadata-file": previous_location}]


def removed_metadata_files(before: Json, after: Json) -> list[str]:
    """The files that a commit removed from the metadata log, if the table's properties request their deletion."""
    if after["properties"].get(METADATA_DELETE_AFTER_COMMIT, "").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in after["metadata-log"]}
    return [entry["metadata-file"] for entry in before["metadata-log"] if entry["metadata-file"] not in kept]


def may_delete_metadata_file(*, begun: bool, current: bool, named: bool, live: bool) -> bool:
    """Whether a file that was removed from the metadata log may be deleted. Those of a table that is not live any more are kept.

    begun -- a store was asked to delete it, which may take effect at any time, so the deletion is completed in any case.
    current -- it is the table's current file, or the last one of a dropped table.
    named -- it is the current file, or the metadata log refers to it again.
    """
    return not current if begun else live and not named


def correct_snapshot_log(
    log: list[Json], snapshots: Container[int], current_id: int | None, intermediate: Container[int], has_removed: bool
) -> list[Json]:
    """The log without snapshots that were current only within this commit, and without the history before a removed snapshot.

    With a gap, an older snapshot would appear to have been current for longer, and time travel would read wrong data.
    """
    kept: list[Json] = []
    for entry in log:
        snapshot_id = entry["snapshot-id"]
        if snapshot_id in snapshots:
            if snapshot_id not in intermediate:
                kept.append(entry)
        elif has_removed:
            kept.clear()
    if current_id is not None and current_id in snapshots and (not kept or kept[-1]["snapshot-id"] != current_id):
        raise ValidationFailed("Cannot set invalid snapshot log: latest entry is not the current snapshot")
    return kept


def check_snapshot_log(log: Sequence[Json], last_updated_ms: int, start: int = 0) -> None:
    """Refuses a log that is not in order or ends after the table's last update. Entries before `start` are known to be valid."""
    if not _in_order(log, start):
        raise IllegalArgument("[BUG] Expected sorted snapshot log entries.")
    if log and last_updated_ms - log[-1]["timestamp-ms"] < -CLOCK_SKEW_MS_MAX:
        raise IllegalArgument(f"Invalid update timestamp {last_updated_ms}: before last snapshot log entry at {log[-1]['timestamp-ms']}")


def check_metadata_log(log: Sequence[Json], last_updated_ms: int, start: int = 0) -> None:
    """As `check_snapshot_log`, for the metadata log."""
    if not _in_order(log, start):
        raise IllegalArgument("[BUG] Expected sorted previous metadata log entries.")
    if log and last_updated_ms - log[-1]["timestamp-ms"] < -CLOCK_SKEW_MS_MAX:
        raise IllegalArgument(
            f"Invalid update timestamp {last_updated_ms}: before the latest metadata log entry timestamp {log[-1]['timestamp-ms']}"
        )


def _in_order(log: Sequence[Json], start: int) -> bool:
    return all(
        log[position]["timestamp-ms"] - log[position - 1]["timestamp-ms"] >= -CLOCK_SKEW_MS_MAX
        for position in range(max(start, 1), len(log))
    )
