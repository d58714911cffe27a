"""Table properties that the catalog uses, and those that it does not store."""

import re
from collections.abc import Mapping

from ..errors import IllegalArgument, ValidationFailed
from .fields import INT_MAX, INT_MIN, Json
from .schemas import SchemaIndex, describe_schema

FORMAT_VERSION = "format-version"
PARQUET_COMPRESSION = "write.parquet.compression-codec"
PARQUET_COMPRESSION_OF_NEW_TABLES = "zstd"
METADATA_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
METADATA_PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT = 100
"""Number of entries in the metadata log."""

RESERVED = frozenset(
    (
        *(FORMAT_VERSION, "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order"),
    )
)
"""Properties that control the creation of a table and are not stored (Java `TableProperties.RESERVED_PROPERTIES`)."""

ENCRYPTION_MIN_FORMAT_VERSION = 3
_ENCRYPTION = ("encryption.key-id", "encryption.data-key-length")
_COMMIT_RETRIES = (
    *("commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms"),
    "commit.retry.total-timeout-ms",
)
_METRICS_COLUMN_PREFIX = "write.metadata.metrics.column."
_METRICS_INFERRED_COLUMNS_MAX = "write.metadata.metrics.max-inferred-column-defaults"
_INTEGER = re.compile(r"[+-]?[0-9]{1,32}")


def parse_int(text: str) -> int:
    """Parses a 32-bit integer as Java's `Integer.parseInt` does: without spaces and underscores."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise IllegalArgument(f'For input string: "{text}"')
    return number


def property_as_int(properties: Mapping[str, str], key: str, default: int) -> int:
    """The property as a 32-bit integer; `default` if it is not set."""
    return parse_int(properties[key]) if key in properties else default


def check_new_table_properties(properties: Mapping[str, str], index: SchemaIndex, schema: Json, format_version: int) -> None:
    """Java's checks of the properties of a new table. They do not apply to existing tables, which must stay usable."""
    property_as_int(properties, _METRICS_INFERRED_COLUMNS_MAX, 0)
    for key in properties:
        column = key.removeprefix(_METRICS_COLUMN_PREFIX)
        if column != key and index.find_name(column) is None:
            raise ValidationFailed(
                f"Invalid metrics config, could not find column {column} from table prop {key} in schema {describe_schema(schema)}"
            )
    for key in _COMMIT_RETRIES:
        _check_commit_property(properties, key)
    encryption = [key for key in _ENCRYPTION if key in properties]
    if encryption and format_version < ENCRYPTION_MIN_FORMAT_VERSION:
        raise IllegalArgument(f"Invalid properties for v{format_version}: [{', '.join(encryption)}]")


def _check_commit_property(properties: Mapping[str, str], key: str) -> None:
    try:
        number = property_as_int(properties, key, 0)
    except IllegalArgument:
        raise ValidationFailed(f"Table property {key} must have integer value") from None
    if number < 0:
        raise ValidationFailed(f"Table property {key} must have non negative integer value")
