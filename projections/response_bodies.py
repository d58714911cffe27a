"""Response bodies for tables, views and warehouses, joined from bytes without parsing."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson

from ..domain.byte_pieces import JOINED_BYTES_MAX, Content, content_of, joined, wrapped
from ..domain.documents import Json
from ..domain.warehouse import WarehouseState
from .tables import LoadedTable
from .views import LoadedView

# Part of every ETag, because the same rows serialized differently are a different response.
SERIALIZATION_VERSION = 2


def load_table_result(table: LoadedTable) -> Content:
    """LoadTableResult: the metadata location and the metadata."""
    return _load_result(orjson.dumps(table.metadata_location), table.metadata)


def staged_table_result(metadata: Content) -> bytes:
    """LoadTableResult of a staged create: no file was written, so the metadata location is null."""
    return joined(_load_result(b"null", metadata))


def commit_table_response(table: LoadedTable) -> Content:
    """CommitTableResponse; also the response of unregister."""
    return wrapped(_commit_opening(table.metadata_location), table.metadata, b"}")


def build_commit_response(metadata_location: str, metadata: Sequence[bytes]) -> tuple[Content, Content]:
    """CommitTableResponse, and the metadata in it, which is also written to the file: joined once, or in pieces if it is large."""
    opening = _commit_opening(metadata_location)
    if any(len(piece) >= JOINED_BYTES_MAX for piece in metadata):
        document = content_of(metadata)
        return wrapped(opening, document, b"}"), document
    whole = b"".join((opening, *metadata, b"}"))
    return whole, memoryview(whole)[len(opening) : -1]


def _commit_opening(metadata_location: str) -> bytes:
    return b'{"metadata-location":' + orjson.dumps(metadata_location) + b',"metadata":'


def load_view_result(view: LoadedView) -> bytes:
    """LoadViewResult."""
    return joined(_load_result(orjson.dumps(view.metadata_location), view.metadata))


def warehouse_result(state: WarehouseState, credential_kind: Mapping[str, str] | None) -> Json:
    """GetWarehouseResponse of Lakekeeper's management API, plus `exact-names`, `read-only`, `purge-default` and `config`.

    It has the kind of the credential, never the credential.
    """
    return {
        # Deprecated in Lakekeeper in favour of warehouse-id.
        "id": str(state.id),
        "warehouse-id": str(state.id),
        "name": state.name,
        "project-id": str(state.project_id),
        "storage-profile": state.storage_profile,
        **({} if credential_kind is None else {"storage-credential-type": credential_kind}),
        "delete-profile": state.delete_profile.to_json(),
        "purge-default": state.purge_default,
        "status": state.status,
        "protected": state.protected,
        "managed-by": "self-managed",
        "allowed-format-versions": state.format_versions.allowed,
        **({} if state.format_versions.default is None else {"default-format-version": state.format_versions.default}),
        "updated-at": None,
        "exact-names": state.exact_names,
        "read-only": state.read_only,
        "config": state.config.to_json(),
    }


def table_etag(event_id: UUID, *, referenced_only: bool = False) -> str:
    """The ETag of one version and one form (`all` or `refs`) of a table; weak, because compressed and plain bytes share it.

    event_id -- of the version's event. The version number is not enough: after a restore, it is used again for other content.
    """
    return f'W/"{event_id}.{"refs" if referenced_only else "all"}.{SERIALIZATION_VERSION}"'


def _load_result(metadata_location: bytes, metadata: Content) -> Content:
    """With an empty `config`: an address of the store without credentials would replace the secrets of DuckDB and ClickHouse."""
    return wrapped(b'{"metadata-location":' + metadata_location + b',"metadata":', metadata, b',"config":{}}')
