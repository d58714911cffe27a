"""The requirements of a view commit (Java `UpdateRequirement`, `UpdateRequirementParser`)."""

from collections.abc import Sequence

from ..errors import BadRequest, CommitFailed, ValidationFailed
from ..metadata.fields import Json, get_string, show

_TABLE_REQUIREMENTS = {
    "assert-create": "AssertTableDoesNotExist",
    "assert-table-uuid": "AssertTableUUID",
    "assert-ref-snapshot-id": "AssertRefSnapshotID",
    "assert-last-assigned-field-id": "AssertLastAssignedFieldId",
    "assert-current-schema-id": "AssertCurrentSchemaID",
    "assert-last-assigned-partition-id": "AssertLastAssignedPartitionId",
    "assert-default-spec-id": "AssertDefaultSpecID",
    "assert-default-sort-order-id": "AssertDefaultSortOrderID",
}
"""Requirements that exist only for tables, with their names in Java's messages."""


def check_view_requirements(base: Json, requirements: Sequence[object]) -> None:
    """Raises CommitFailed if a requirement fails on `base`, and BadRequest or ValidationFailed if it is not valid for a view."""
    for kind, uuid in [_parse_requirement(requirement) for requirement in requirements]:
        if kind in _TABLE_REQUIREMENTS:
            raise ValidationFailed(f"Cannot validate {_TABLE_REQUIREMENTS[kind]} against a view")
        if uuid.lower() != base["view-uuid"].lower():
            raise CommitFailed(f"Requirement failed: view UUID does not match: expected {base['view-uuid']} != {uuid}")


def _parse_requirement(node: object) -> tuple[str, str]:
    """Parses the kind of a requirement and, for `assert-view-uuid`, the UUID."""
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse update requirement from non-object value: {show(node)}")
    if node.get("type") is None:
        raise BadRequest("Cannot parse update requirement. Missing field: type")
    kind = get_string(node, "type").lower()
    if kind == "assert-view-uuid":
        return kind, get_string(node, "uuid")
    if kind in _TABLE_REQUIREMENTS:
        return kind, ""
    raise BadRequest(f"Unrecognized update requirement. Cannot convert to json: {kind}")
