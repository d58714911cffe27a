"""How a table is maintained, from its own properties and those of its namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..domain.maintenance import PROCEDURES

ENABLED = "icecore.maintenance.enabled"
ENABLED_PROCEDURES = "icecore.maintenance.procedures"
MIN_INPUT_FILES = "icecore.maintenance.min-input-files"
ORPHAN_MIN_AGE = "icecore.maintenance.orphan-files-min-age-days"
ORPHAN_INTERVAL = "icecore.maintenance.orphan-files-interval-days"
INHERITED = (ENABLED, ENABLED_PROCEDURES, MIN_INPUT_FILES, ORPHAN_MIN_AGE, ORPHAN_INTERVAL)
"""Properties of tables and namespaces; the nearest one counts."""
TARGET_FILE_SIZE = "write.target-file-size-bytes"
SNAPSHOT_MAX_AGE = "history.expire.max-snapshot-age-ms"
SNAPSHOTS_TO_KEEP = "history.expire.min-snapshots-to-keep"
GC_ENABLED = "gc.enabled"
DELETE_GRANULARITY = "write.delete.granularity"

MIN_INPUT_FILES_DEFAULT = 5
TARGET_FILE_SIZE_DEFAULT = 512 * 1024**2
SNAPSHOT_MAX_AGE_MS_DEFAULT = 5 * 24 * 3_600 * 1_000
SNAPSHOTS_TO_KEEP_DEFAULT = 1
ORPHAN_MIN_AGE_DAYS_DEFAULT = 3
ORPHAN_INTERVAL_DAYS_DEFAULT = 30
"""Iceberg's defaults, except for the last: its procedure has no interval."""
DAYS_MAX = 36_500
_INTEGER_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_LONG_DIGITS_MAX = 19


class InvalidPolicyError(ValueError):
    """A property has an invalid value; the message names both. Nothing is done for the table."""


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """What may be done to a table, and when it is worth it.

    procedures -- those that may run; none if maintenance is off. min_input_files -- fewer small files, delete files or manifests are left
    alone. snapshots_to_keep -- of each branch, whatever their age. orphan_min_age_days -- younger files are never removed.
    """

    procedures: frozenset[str] = frozenset(PROCEDURES)
    min_input_files: int = MIN_INPUT_FILES_DEFAULT
    target_file_bytes: int = TARGET_FILE_SIZE_DEFAULT
    snapshot_max_age_ms: int = SNAPSHOT_MAX_AGE_MS_DEFAULT
    snapshots_to_keep: int = SNAPSHOTS_TO_KEEP_DEFAULT
    orphan_min_age_days: int = ORPHAN_MIN_AGE_DAYS_DEFAULT
    orphan_interval_days: int = ORPHAN_INTERVAL_DAYS_DEFAULT


def parse_policy(properties: Mapping[str, str]) -> MaintenancePolicy:
    """The policy of a table with these properties, inherited ones included. Raises InvalidPolicyError."""
    procedures = _procedures(properties) if _boolean(properties, ENABLED) else frozenset()
    if not _boolean(properties, GC_ENABLED):
        # Iceberg refuses both: the table shares files with others.
        procedures -= {"expire_snapshots", "remove_orphan_files"}
    return MaintenancePolicy(
        procedures,
        min_input_files=_number(properties, MIN_INPUT_FILES, MIN_INPUT_FILES_DEFAULT, 2, _INTEGER_MAX),
        target_file_bytes=_number(properties, TARGET_FILE_SIZE, TARGET_FILE_SIZE_DEFAULT, 1, _LONG_MAX),
        # Tables whose snapshots are to stay have the largest number that Java knows.
        snapshot_max_age_ms=min(
            _number(properties, SNAPSHOT_MAX_AGE, SNAPSHOT_MAX_AGE_MS_DEFAULT, 1, _LONG_MAX), DAYS_MAX * 24 * 3_600 * 1_000
        ),
        snapshots_to_keep=_number(properties, SNAPSHOTS_TO_KEEP, SNAPSHOTS_TO_KEEP_DEFAULT, 1, _INTEGER_MAX),
        orphan_min_age_days=_number(properties, ORPHAN_MIN_AGE, ORPHAN_MIN_AGE_DAYS_DEFAULT, 1, DAYS_MAX),
        orphan_interval_days=_number(properties, ORPHAN_INTERVAL, ORPHAN_INTERVAL_DAYS_DEFAULT, 1, DAYS_MAX),
    )


def _procedures(properties: Mapping[str, str]) -> frozenset[str]:
    if ENABLED_PROCEDURES not in properties:
        return frozenset(PROCEDURES)
    wanted = frozenset(each.strip() for each in properties[ENABLED_PROCEDURES].split(",") if each.strip())
    for each in sorted(wanted - set(PROCEDURES)):
        raise InvalidPolicyError(f"Invalid {ENABLED_PROCEDURES}: {each[:64]!r} is not one of {', '.join(PROCEDURES)}")
    return wanted


def _boolean(properties: Mapping[str, str], name: str) -> bool:
    text = properties.get(name, "true")
    if text.lower() not in ("true", "false"):
        raise InvalidPolicyError(f"Invalid {name}: {text[:64]!r} is neither true nor false")
    return text.lower() == "true"


def _number(properties: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _LONG_DIGITS_MAX and least <= int(text) <= most):
        raise InvalidPolicyError(f"Invalid {name}: {text[:64]!r} is not a whole number from {least} to {most}")
    return int(text)
