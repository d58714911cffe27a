"""Limits of the HTTP API, each with a name, a unit and a default. Settings can change them."""

from dataclasses import dataclass
from datetime import timedelta

from ..domain.json_rules import DEPTH_MAX

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Limits on one request and one response.

    body_bytes_max, body_seconds_max -- the size of a request body, and how long a client may take to send it.
    stall_seconds_max -- how long a client may make no progress with its body or the response, and how long the head of a request may take.
    response_rate_min -- bytes per second that a client must read of a response, averaged over stall_seconds_max.
    connections_max -- open connections of one serving process; fewer if the process may open fewer file descriptors.
    body_memory_bytes_max, response_memory_bytes_max -- bytes of all bodies and responses that one serving process handles at a time;
    beyond them 429. Small ones (api/byte_budget.py) are not counted. A single large one is
    admitted even above the limit.
    json_depth_max -- nested arrays and objects. Each nested struct column takes three levels.
    json_values_max -- values of a body, counted before it is parsed; objects count twice. A parsed value takes up to twenty times its
    bytes.
    properties_max, property_key_bytes_max, property_value_bytes_max -- of one namespace, table or view. The limit on values is high because
    `schema.name-mapping.default` of a wide table is one value.
    updates_max -- updates of one commit, all tables of a transaction together. Java sends one `remove-snapshots` per expired snapshot, so a
    limit near 1,000 would prevent normal expiry of snapshots.
    requirements_max, table_changes_max -- requirements of one commit, tables of one transaction.
    report_bytes_max -- one metrics report.
    page_size_default, page_size_max -- items of one page if the client sends no size, and the maximum.
    read_seconds_max -- time limit of a read, then 503. Mutations have limits in their commands, because the outcome of an interrupted
    commit would be unknown.
    idempotency_key_lifetime -- how long a response is kept for its Idempotency-Key; `getConfig` returns it to clients.
    gzip_bytes_min, gzip_inline_bytes_max -- smallest body that is compressed, and largest that is compressed on the event loop.
    gzip_cache_bytes_max -- size of the cache of compressed responses.
    """

    body_bytes_max: int = 32 * MEBIBYTE
    body_seconds_max: float = 60.0
    stall_seconds_max: float = 30.0
    response_rate_min: int = 16 * KIBIBYTE
    connections_max: int = 1_000
    body_memory_bytes_max: int = 48 * MEBIBYTE
    response_memory_bytes_max: int = 48 * MEBIBYTE
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
    """`lifetime` as `PT…`, as in the spec's `idempotency-key-lifetime`: whole seconds, in the largest unit without a remainder."""
    seconds = int(lifetime.total_seconds())
    for unit_seconds, letter in ((3600, "H"), (60, "M")):
        if seconds and seconds % unit_seconds == 0:
            return f"PT{seconds // unit_seconds}{letter}"
    return f"PT{seconds}S"
