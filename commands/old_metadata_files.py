"""Old metadata files: those that a commit removes from the metadata log are deleted where the table's property asks for it.

Java deletes what a commit removed from the log wherever it lies (CatalogUtil.deleteRemovedMetadataFiles). Here a file must lie in a place
that the table claims (its location, its `write.metadata.path`), since a registered document's log may name any file of the warehouse.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from domain.documents import Json
from domain.errors import BadRequest, CatalogError
from domain.table import TableState
from projections import tables
from queries.warehouse import Warehouse
from storage.locations import StorageLocation
from storage.metadata_files import is_metadata_file

if TYPE_CHECKING:
    from commands.write_side import WriteSide

_log = structlog.get_logger("icecore.commands")

_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True, slots=True)
class OldMetadataFiles:
    """Metadata files that a commit removed from its table's log."""

    table_id: UUID
    files: tuple[str, ...]


def old_metadata_files(before: TableState, metadata: Json) -> list[OldMetadataFiles]:
    """What the commit that leads to `metadata` removes from the log, where the table asks for it to be deleted; one or none."""
    if metadata["properties"].get(_DELETE_AFTER_COMMIT, "").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in metadata["metadata-log"]}
    files = tuple(file for entry in before.document.value["metadata-log"] if (file := entry["metadata-file"]) not in kept)
    return [OldMetadataFiles(before.id, files)] if files else []


async def delete_old_metadata_files(write: "WriteSide", warehouse: Warehouse, old: OldMetadataFiles) -> None:
    """Deletes those that lie in a place of the table, unless the table as it is now names them; nothing where it is gone."""
    try:
        async with write.connection() as connection:
            current = await tables.named_metadata_files(connection, old.table_id)
    except CatalogError as error:
        _log.warning("metadata_file_left", files=old.files, error=error.message)
        return
    if current is None:
        return
    # A claim key is the store's identity, a bar, and the place.
    places = _parsed([key.partition("|")[2] for key in current.location_keys])
    named = {*_parsed(current.files)}
    deleted = [
        file
        for file in _parsed(old.files)
        if file not in named and is_metadata_file(file) and any(place.contains(file) for place in places)
    ]
    await write.delete(warehouse, deleted)


def _parsed(texts: list[str] | tuple[str, ...]) -> list[StorageLocation]:
    """Those that are locations by today's rules."""
    locations = []
    for text in texts:
        try:
            locations.append(StorageLocation.parse_structure(text, what="metadata-file"))
        except BadRequest:
            _log.warning("metadata_file_left", files=[text])
    return locations
