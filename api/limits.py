"""Limits of the HTTP API, each with a name, a unit and a default. Settings can change them."""

from dataclasses import dataclass
from datetime import timedelta

from ..domain.json_rules import DEPTH_MAX

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """What one request may bring and one answer may hold.

    body_bytes_max, body_seconds_max -- the size of a request body, and how long a client may take to send it.
    stall_seconds_max -- how long a client may send nothing of its body, take nothing of its answer, or take over the head of a request.
    answer_rate_min -- bytes a second that a client takes of an answer at least, on the average of stall_seconds_max.
    connections_max -- open connections of one worker; fewer where the process may open fewer descriptors.
    body_bytes_held_max, answer_bytes_held_max -- bodies that arrive or are worked on, and answers that are made and sent, of one worker at
    one time; beyond it 429. Small ones (api/byte_budget.py) are not counted, nor is one that is alone.
    json_depth_max -- arrays and objects inside one another; a struct column costs three levels per nesting.
    json_values_max -- values of a body, objects twice, counted before it is parsed: a parsed value costs up to twenty times its bytes.
    properties_max, property_key_bytes_max, property_value_bytes_max -- of one namespace, table or view. The value bound is
    generous because `schema.name-mapping.default` of a wide table is one value.
    updates_max -- updates of one commit, all tables of a transaction together. Java sends one `remove-snapshots` per
    expired snapshot, so a bound near 1,000 would stop ordinary snapshot expiry.
    requirements_max, table_changes_max -- requirements of one commit, tables of one transaction.
    report_bytes_max -- one metrics report.
    page_size_default, page_size_max -- items of one page when the client names no size, and at most.
    read_seconds_max -- how long a question may take before 503. Mutations are not cut: their commands bound themselves,
    because a commit that is stopped half way is a commit in doubt.
    idempotency_key_lifetime -- how long an answer is kept for its Idempotency-Key; told to clients by `getConfig`.
    gzip_bytes_min, gzip_inline_bytes_max -- bodies from here on are compressed; those above the second, in a thread.
    gzip_cache_bytes_max -- compressed table answers kept for the next reader.
    """

    body_bytes_max: int = 32 * MEBIBYTE
    body_seconds_max: float = 60.0
    stall_seconds_max: float = 30.0
    answer_rate_min: int = 16 * KIBIBYTE
    connections_max: int = 1_000
    body_bytes_held_max: int = 48 * MEBIBYTE
    answer_bytes_held_max: int = 48 * MEBIBYTE
    json_depth_max: int = DEPTH_MAX
    json_values_max: int = 1_000_000
    properties_max: int = 10_000
    property_key_bytes_max: int = KIBIBYTE
    property_value_bytes_max: int = MEBIBYTE
    updates_max: int = 20_000
    requirements_max: int = 1_000
    table_changes_max: int = 1_000
    report_bytes_max: int = 256 * KIBIBYTE
    page_size_default: int = 1_000
    page_size_max: int = 10_000
    read_seconds_max: float = 30.0
    idempotency_key_lifetime: timedelta = timedelta(hours=24)
    gzip_bytes_min: int = KIBIBYTE
    gzip_inline_bytes_max: int = 256 * KIBIBYTE
    gzip_cache_bytes_max: int = 64 * MEBIBYTE


DEFAULT_LIMITS = ApiLimits()


def iso_8601_duration(lifetime: timedelta) -> str:
    """`lifetime` as `PT…`, the form `idempotency-key-lifetime` has in the spec; whole seconds, in the largest unit that fits."""
    seconds = int(lifetime.total_seconds())
    for unit_seconds, letter in ((3600, "H"), (60, "M")):
        if seconds and seconds % unit_seconds == 0:
            return f"PT{seconds // unit_seconds}{letter}"
    return f"PT{seconds}S"
