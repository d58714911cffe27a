"""The bodies of the spec's answers about tables and views, joined from bytes without parsing."""

from collections.abc import Mapping

import orjson

from projections.tables import LoadedTable
from projections.views import LoadedView

# Part of every ETag: a change in how rows become bytes changes the answer.
SERIALISATION = 1


def load_table_result(table: LoadedTable, config: Mapping[str, str]) -> bytes:
    """LoadTableResult: where the metadata file is, the metadata, and what the engine's file access needs to know."""
    return _joined(orjson.dumps(table.metadata_location), table.metadata, config)


def staged_table_result(metadata: bytes, config: Mapping[str, str]) -> bytes:
    """LoadTableResult of a staged create: nothing is written, so there is no metadata location."""
    return _joined(b"null", metadata, config)


def commit_table_response(table: LoadedTable) -> bytes:
    """CommitTableResponse; also what unregister answers."""
    return b"".join((b'{"metadata-location":', orjson.dumps(table.metadata_location), b',"metadata":', table.metadata, b"}"))


def load_view_result(view: LoadedView, config: Mapping[str, str]) -> bytes:
    """LoadViewResult."""
    return _joined(orjson.dumps(view.metadata_location), view.metadata, config)


def table_etag(table_id: object, version: int, *, referenced_only: bool = False) -> str:
    """One for each version and each form of a table's answer; weak, because gzip and plain bytes share it."""
    return f'W/"{table_id}.{version}.{"refs" if referenced_only else "all"}.{SERIALISATION}"'


def _joined(metadata_location: bytes, metadata: bytes, config: Mapping[str, str]) -> bytes:
    return b"".join((b'{"metadata-location":', metadata_location, b',"metadata":', metadata, b',"config":', orjson.dumps(config), b"}"))
