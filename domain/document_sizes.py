"""Limits on the size of an object's document: a change or a response takes several times that size in memory."""

from collections.abc import Mapping
from typing import Any

import orjson

from .documents import Document, table_size
from .errors import BadRequest

WHOLE_DOCUMENT_BYTES_MAX = 16 * 1024 * 1024
"""Limit on a view's metadata and a namespace's properties, as JSON: each change reads the whole of it and writes the whole of it."""

# Every commit adds to it, even one that removes a property or a snapshot.
_METADATA_LOG = "metadata-log"


def check_table_size(before: Document | None, after: Document, bytes_max: int) -> None:
    """Raises BadRequest if a table's document is larger than `bytes_max` and, not counting metadata logs, than the document before (None: a
    new table).
    """
    if after is before or (size := table_size(after)) <= bytes_max:
        return
    if before is None or table_size(after, without=_METADATA_LOG) > table_size(before, without=_METADATA_LOG):
        raise BadRequest(
            f"A table's metadata would be {size} bytes, and at most {bytes_max} bytes are allowed: expire snapshots or remove properties, "
            "or raise the server's ICECORE_LARGE_DOCUMENTS_BYTES_MAX"
        )


def check_whole_document_size(what: str, before: Mapping[str, Any] | None, after: bytes) -> None:
    """As check_table_size with WHOLE_DOCUMENT_BYTES_MAX, for documents that are stored whole; `what` names it in the message."""
    if len(after) > WHOLE_DOCUMENT_BYTES_MAX and (before is None or len(after) > len(orjson.dumps(before))):
        raise BadRequest(f"{what} would be {len(after)} bytes, and at most {WHOLE_DOCUMENT_BYTES_MAX} bytes are allowed")
