"""Old metadata files: those that a commit removes from the metadata log are deleted if a table property requests it.

Java deletes every file that a commit removed from the log (CatalogUtil.deleteRemovedMetadataFiles). Here the file must be in a location
that the table claims (docs/concepts/purge.md), because a registered document's log may name any file of the warehouse.

The commit's append records them in `icecore.old_metadata_files`; a job deletes them
(commands/tables/delete_old_metadata_files.py). Until then none of them can be registered.
"""

from typing import NamedTuple
from uuid import UUID

from ...domain.errors import BadRequest
from ...domain.metadata.logs import removed_metadata_files
from ...domain.table import TableState
from ...storage.locations import StorageLocation
from ...storage.metadata_files import is_metadata_file


class OldMetadataFile(NamedTuple):
    """A row of `icecore.old_metadata_files`; key -- the file as a location claim key."""

    key: str
    table_id: UUID
    warehouse_id: UUID
    location: str


def old_metadata_files(before: TableState, after: TableState, storage_identity: str) -> list[OldMetadataFile]:
    """The files to delete: removed from the metadata log by the commit, and in the table's locations; empty unless the property is set."""
    files = []
    for text in removed_metadata_files(before.document.value, after.document.value):
        location = parsed_file(text)
        if location is not None and is_metadata_file(location):
            key = location.claim_key(storage_identity)
            if key.startswith(after.location_keys) and key not in after.location_keys:
                files.append(OldMetadataFile(key, after.id, after.warehouse_id, text))
    return files


def parsed_file(text: str) -> StorageLocation | None:
    """The location of a file; None if the text is not a valid location by the current rules. Such a file is not deleted."""
    try:
        return StorageLocation.parse_structure(text, field="metadata-file")
    except BadRequest:
        return None
