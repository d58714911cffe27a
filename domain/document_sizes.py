"""Limits of the documents of one object. A change or answer takes several times a document's bytes in memory."""

from collections.abc import Mapping
from typing import Any

import orjson

from .documents import Document, table_bytes
from .errors import BadRequest

KEPT_WHOLE_BYTES_MAX = 16 * 1024 * 1024
"""Of a view's metadata, and of a namespace's properties, as JSON: each version is written whole, and read whole by the next change."""

# Every commit adds to it, one that removes a property or a snapshot too.
_LOG_OF_COMMITS = "metadata-log"


def check_table_size(before: Document | None, after: Document, bytes_max: int) -> None:
    """BadRequest where a table's document is larger than `bytes_max` and than the one before (None: a new table)."""
    if after is before or (size := table_bytes(after)) <= bytes_max:
        return
    if before is None or table_bytes(after, without=_LOG_OF_COMMITS) > table_bytes(before, without=_LOG_OF_COMMITS):
        raise BadRequest(
            f"A table's metadata may have at most {bytes_max} bytes and would have {size}: expire snapshots or remove properties, "
            "or raise the server's ICECORE_LARGE_DOCUMENTS_BYTES_MAX"
        )


def check_kept_whole_size(what: str, before: Mapping[str, Any] | None, after: bytes) -> None:
    """The same for what is kept whole, by KEPT_WHOLE_BYTES_MAX; `what` names it in the message."""
    if len(after) > KEPT_WHOLE_BYTES_MAX and (before is None or len(after) > len(orjson.dumps(before))):
        raise BadRequest(f"{what} may have at most {KEPT_WHOLE_BYTES_MAX} bytes and would have {len(after)}")
