"""Bodies of answers about tables, views and warehouses, joined from bytes without parsing."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson

from ..domain.byte_pieces import JOINED_BYTES_MAX, Content, around, content_of, joined
from ..domain.documents import Json
from ..domain.warehouse import WarehouseState
from .tables import LoadedTable
from .views import LoadedView

# Part of every ETag: a change in how rows become bytes changes the answer.
SERIALISATION = 1


def load_table_result(table: LoadedTable, config: Mapping[str, str]) -> Content:
    """LoadTableResult: where the metadata file is, the metadata, and what the engine's file access needs to know."""
    return _with_config(orjson.dumps(table.metadata_location), table.metadata, config)


def staged_table_result(metadata: Content, config: Mapping[str, str]) -> bytes:
    """LoadTableResult of a staged create: nothing is written, so there is no metadata location."""
    return joined(_with_config(b"null", metadata, config))


def commit_table_response(table: LoadedTable) -> Content:
    """CommitTableResponse; also what unregister answers."""
    return around(_commit_opening(table.metadata_location), table.metadata, b"}")


def commit_table_response_of(metadata_location: str, metadata: Sequence[bytes]) -> tuple[Content, Content]:
    """CommitTableResponse, and the metadata in it, which goes into the file: joined once, or of a large table in pieces."""
    opening = _commit_opening(metadata_location)
    if any(len(piece) >= JOINED_BYTES_MAX for piece in metadata):
        document = content_of(metadata)
        return around(opening, document, b"}"), document
    whole = b"".join((opening, *metadata, b"}"))
    return whole, memoryview(whole)[len(opening) : -1]


def _commit_opening(metadata_location: str) -> bytes:
    return b'{"metadata-location":' + orjson.dumps(metadata_location) + b',"metadata":'


def load_view_result(view: LoadedView, config: Mapping[str, str]) -> bytes:
    """LoadViewResult."""
    return joined(_with_config(orjson.dumps(view.metadata_location), view.metadata, config))


def warehouse_result(state: WarehouseState, credential_kind: Mapping[str, str] | None) -> Json:
    """GetWarehouseResponse of Lakekeeper's management API, with `exact-names` beside it; never a credential, whose kind may be told."""
    return {
        # Deprecated there for the second.
        "id": str(state.id),
        "warehouse-id": str(state.id),
        "name": state.name,
        "project-id": str(state.project_id),
        "storage-profile": state.storage_profile,
        **({} if credential_kind is None else {"storage-credential-type": credential_kind}),
        "delete-profile": {"type": "hard"},
        "status": "active",
        "protected": False,
        "managed-by": "self-managed",
        "allowed-format-versions": [1, 2, 3],
        "updated-at": None,
        "exact-names": state.exact_names,
    }


def table_etag(event_id: UUID, *, referenced_only: bool = False) -> str:
    """One for each version and each form of a table's answer; weak, because gzip and plain bytes share it.

    event_id -- of the version's event. A version's number would not do: in a restored log it comes again, with other content.
    """
    return f'W/"{event_id}.{"refs" if referenced_only else "all"}.{SERIALISATION}"'


def _with_config(metadata_location: bytes, metadata: Content, config: Mapping[str, str]) -> Content:
    opening = b'{"metadata-location":' + metadata_location + b',"metadata":'
    return around(opening, metadata, b',"config":' + orjson.dumps(config) + b"}")
