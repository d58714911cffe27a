"""Statistics files, partition statistics files and encryption keys of a table."""

import base64
import re

from ..errors import BadRequest
from .fields import Json, get_int_list, get_long, get_string, get_string_map, get_string_or_none, show

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def parse_statistics_file(value: object) -> Json:
    """Parses a Puffin file of column statistics for one snapshot."""
    node = value if isinstance(value, dict) else {}
    statistics: Json = {
        "snapshot-id": get_long(node, "snapshot-id"),
        "statistics-path": get_string(node, "statistics-path"),
        "file-size-in-bytes": get_long(node, "file-size-in-bytes"),
        "file-footer-size-in-bytes": get_long(node, "file-footer-size-in-bytes"),
    }
    blobs = node.get("blob-metadata")
    if not isinstance(blobs, list):
        raise BadRequest(f"Cannot parse blob metadata from non-array: {show(blobs)}")
    statistics["blob-metadata"] = [_parse_blob(blob) for blob in blobs]
    return statistics


def _parse_blob(value: object) -> Json:
    node = value if isinstance(value, dict) else {}
    blob: Json = {
        "type": get_string(node, "type"),
        "snapshot-id": get_long(node, "snapshot-id"),
        "sequence-number": get_long(node, "sequence-number"),
        "fields": get_int_list(node, "fields"),
    }
    return blob | _parse_properties(node)


def _parse_properties(node: Json) -> Json:
    properties = get_string_map(node, "properties") if "properties" in node else {}
    return {"properties": properties} if properties else {}


def parse_partition_statistics_file(value: object) -> Json:
    """Parses a file of partition statistics for one snapshot."""
    node = value if isinstance(value, dict) else {}
    return {
        "snapshot-id": get_long(node, "snapshot-id"),
        "statistics-path": get_string(node, "statistics-path"),
        "file-size-in-bytes": get_long(node, "file-size-in-bytes"),
    }


def parse_encryption_key(value: object) -> Json:
    """Parses a table encryption key, which is itself encrypted. Its metadata is base64 with padding."""
    node = value if isinstance(value, dict) else {}
    key: Json = {"key-id": get_string(node, "key-id")}
    key["encrypted-key-metadata"] = _canonical_base64(get_string(node, "encrypted-key-metadata"))
    encrypted_by_id = get_string_or_none(node, "encrypted-by-id")
    if encrypted_by_id is not None:
        key["encrypted-by-id"] = encrypted_by_id
    return key | _parse_properties(node)


def _canonical_base64(text: str) -> str:
    stripped = text.rstrip("=")
    # Padding may be missing but not wrong.
    padded = stripped + "=" * (-len(stripped) % 4)
    if not _BASE64.fullmatch(text) or len(stripped) % 4 == 1 or text not in (stripped, padded):
        raise BadRequest("Cannot parse encrypted-key-metadata: not base64")
    return base64.b64encode(base64.b64decode(padded)).decode()
