"""The next metadata file of a table or view: its bytes and its location."""

import re

from uuid_utils.compat import uuid7

from ...access.warehouse import Warehouse
from ...domain.byte_pieces import Content, content_of
from ...domain.documents import TABLE_KINDS, Document, Json, document_pieces, joined_bodies, table_head
from ...domain.table import TableState
from ...projections.tables import LoadedTable
from ...storage.locations import StorageLocation
from ...storage.metadata_files import metadata_file_location
from ..execution.handler import MetadataFile

_FILE_NUMBER = re.compile(r"^(\d{1,9})-")


def serialize_table(document: Document) -> Content:
    """The metadata document as it is written to the file and sent to clients."""
    return content_of(serialize_table_pieces(document))


def serialize_table_pieces(document: Document) -> list[bytes]:
    """As serialize_table, in pieces."""
    return document_pieces(table_head(document), joined_bodies(document), TABLE_KINDS)


def build_loaded_table(state: TableState, metadata: Content) -> LoadedTable:
    """The table as a load will read it once its events are in the log."""
    return LoadedTable(state.id, state.version, state.event_id, state.metadata_location, metadata)


def next_metadata_location(warehouse: Warehouse, metadata: Json, number: int) -> StorageLocation:
    """The location of a document's new metadata file, with a new UUID in its name."""
    return metadata_file_location(warehouse.profile, metadata["location"], metadata["properties"], number, uuid7())


def metadata_file(warehouse: Warehouse, metadata: Json, content: Content, number: int) -> MetadataFile:
    """The metadata file for a document. content -- the document as it is written."""
    return MetadataFile(next_metadata_location(warehouse, metadata, number), content)


def next_file_number(metadata_location: str) -> int:
    """One more than the number at the start of the current file's name; 0 if there is none (a registered file named differently)."""
    match = _FILE_NUMBER.match(metadata_location.rpartition("/")[2])
    return int(match[1]) + 1 if match else 0
