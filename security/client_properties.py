"""The properties that an operator may set for a warehouse's clients: those that only tune them.

The names are those of Iceberg 1.11 (CatalogProperties, RESTCatalogProperties, HTTPClient, HttpClientProperties and the properties of each
FileIO) and PyIceberg 0.12. A new one needs its line in the table of docs/how-to/warehouses.md.
"""

import re
from collections.abc import Mapping

from ..domain.errors import BadRequest
from ..domain.invalid_values import nearest_name
from .property_rules import is_credential_property

_SWITCH = ("true", "false")
_NUMBER = range(1, 2**31)
_NUMBER_OR_ZERO = range(2**31)
_BUFFER_BYTES = range(2**18, 2**30 + 1)
_PART_BYTES = range(5 * 2**20, 2**30 + 1)
"""Iceberg's S3FileIO does not start with smaller parts."""
_THREADS = range(1, 1001)
_MILLISECONDS = range(1, 86_400_001)
_TIMEOUT_MILLISECONDS = range(1000, 86_400_001)
"""With less, clients give up before a response."""
_SECONDS = range(1, 86_401)

PERMITTED: Mapping[str, range | tuple[str, ...]] = {
    "snapshot-loading-mode": ("all", "refs"),
    "rest-page-size": _NUMBER,
    "rest-metrics-reporting-enabled": _SWITCH,
    "rest-table-cache.expire-after-write-ms": _MILLISECONDS,
    "rest-table-cache.max-entries": _NUMBER_OR_ZERO,
    "rest.client.max-retries": _NUMBER,
    "rest.client.max-connections": _NUMBER,
    "rest.client.connections-per-route": _NUMBER,
    "rest.client.connection-timeout-ms": _TIMEOUT_MILLISECONDS,
    "rest.client.socket-timeout-ms": _TIMEOUT_MILLISECONDS,
    "io.manifest.cache-enabled": _SWITCH,
    "io.manifest.cache.expiration-interval-ms": _MILLISECONDS,
    "io.manifest.cache.max-total-bytes": _NUMBER,
    "io.manifest.cache.max-content-length": _NUMBER,
    "s3.connect-timeout": _SECONDS,
    "s3.request-timeout": _SECONDS,
    "s3.retry.num-retries": _NUMBER_OR_ZERO,
    "s3.retry.min-wait-ms": _MILLISECONDS,
    "s3.retry.max-wait-ms": _MILLISECONDS,
    "s3.multipart.part-size-bytes": _PART_BYTES,
    "s3.multipart.num-threads": _THREADS,
    "s3.delete.batch-size": range(1, 1001),
    "s3.delete.num-threads": _THREADS,
    "s3.crt.max-concurrency": _NUMBER,
    "s3.checksum-enabled": _SWITCH,
    "s3.chunked-encoding-enabled": _SWITCH,
    "s3.preload-client-enabled": _SWITCH,
    "s3.delete-enabled": _SWITCH,
    "http-client.urlconnection.connection-timeout-ms": _TIMEOUT_MILLISECONDS,
    "http-client.urlconnection.socket-timeout-ms": _TIMEOUT_MILLISECONDS,
    "http-client.apache.connection-timeout-ms": _TIMEOUT_MILLISECONDS,
    "http-client.apache.socket-timeout-ms": _TIMEOUT_MILLISECONDS,
    "http-client.apache.connection-acquisition-timeout-ms": _TIMEOUT_MILLISECONDS,
    "http-client.apache.connection-max-idle-time-ms": _MILLISECONDS,
    "http-client.apache.connection-time-to-live-ms": _MILLISECONDS,
    "http-client.apache.max-connections": _NUMBER,
    "http-client.apache.expect-continue-enabled": _SWITCH,
    "http-client.apache.tcp-keep-alive-enabled": _SWITCH,
    "http-client.apache.use-idle-connection-reaper-enabled": _SWITCH,
    "gcs.channel.read.chunk-size-bytes": _BUFFER_BYTES,
    "gcs.channel.write.chunk-size-bytes": _BUFFER_BYTES,
    "gcs.delete.batch-size": range(1, 1001),
    "adls.read.block-size-bytes": _BUFFER_BYTES,
    "adls.write.block-size-bytes": _BUFFER_BYTES,
    "table-default.format-version": range(1, 4),
    "table-override.format-version": range(1, 4),
}
"""Each with its values: numbers, or one of some words. Others make clients fail when they start."""
_SIMILARITY_MIN = 0.9
_OF_NEW_TABLES = re.compile(r"table-(?:default|override)\.((?:commit|history|read|write)\..+)")
_OF_NEW_VIEWS = re.compile(r"view-(?:default|override)\.((?:replace|version|write)\..+)")
_CLASS_OR_FOLDER = (".impl", ".path")
"""Endings of names of classes that writers load, and of folders that they write to."""


def check_client_properties(properties: Mapping[str, str], field: str) -> None:
    """Raises BadRequest, naming `field` and the key but never the value, unless every key is permitted and has a value of its kind."""
    for name, value in properties.items():
        permitted = PERMITTED.get(name)
        if permitted is None:
            if not _tunes_new_tables(name):
                raise BadRequest(
                    f"Invalid {field}: the property {name[:200]!r} is not permitted: see 'Warehouses' in the documentation{_hint(name)}"
                )
        elif not _is_among(value, permitted):
            raise BadRequest(f"Invalid {field}: the value of {name!r} must be {_described(permitted)}")


def _hint(name: str) -> str:
    """A permitted property that `name` is a slip of. Many of Iceberg's properties that are not permitted have similar names."""
    nearest = nearest_name(name.lower().replace("_", "-"), PERMITTED, _SIMILARITY_MIN)
    return "" if nearest is None else f"; did you mean {nearest!r}?"


def _tunes_new_tables(name: str) -> bool:
    """Whether it is a property of new tables or views that Iceberg's own readers and writers use, without a class or folder."""
    found = _OF_NEW_TABLES.fullmatch(name) or _OF_NEW_VIEWS.fullmatch(name)
    return found is not None and not found[1].endswith(_CLASS_OR_FOLDER) and not is_credential_property(found[1])


def _is_among(value: str, permitted: range | tuple[str, ...]) -> bool:
    if isinstance(permitted, tuple):
        return value in permitted
    return value.isascii() and value.isdigit() and len(value) <= len(str(permitted[-1])) and int(value) in permitted


def _described(permitted: range | tuple[str, ...]) -> str:
    if isinstance(permitted, tuple):
        return " or ".join(permitted)
    return f"a whole number from {permitted[0]} to {permitted[-1]}"
