"""What a warehouse permits of the metadata of its tables: locations and format versions."""

from collections.abc import Mapping
from typing import Any

from ...access.warehouse import Warehouse
from ...storage.location_policy import check_document_locations


def check_table_metadata(
    warehouse: Warehouse, before: Mapping[str, Any] | None, metadata: Mapping[str, Any], *, imported: bool = False
) -> None:
    """Raises BadRequest for a location that the warehouse does not permit, or for a new format version that it does not allow.

    before, imported -- as for check_document_locations. A table keeps a version that is not allowed any more.
    """
    check_document_locations(warehouse.profile, before, metadata, imported=imported)
    if before is None or before["format-version"] != metadata["format-version"]:
        warehouse.format_versions.check(metadata["format-version"])
