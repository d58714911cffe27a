"""Requirements of a commit request: conditions on the table before its updates are applied (REST spec, `TableRequirement`)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import BadRequest, CommitFailed, IllegalArgument, ValidationFailed
from .fields import Json, get_int, get_long_or_none, get_string, show

ASSERT_CREATE = "assert-create"

Check = Callable[[Json | None], None]


@dataclass(frozen=True, slots=True)
class TableRequirement:
    """One parsed requirement. `check` raises CommitFailed if it fails, ValidationFailed for the UUID of a view."""

    type: str
    check: Check


def check_requirements(base: Json | None, requirements: object) -> None:
    """Raises CommitFailed for the first requirement that fails on `base` (None: the table does not exist).

    requirements -- as sent, or the result of `parse_requirements`. Raises IllegalArgument if `assert-create` is combined with others.
    """
    parsed = parse_requirements(requirements)
    others = [requirement.type for requirement in parsed if requirement.type != ASSERT_CREATE]
    if others and len(others) < len(parsed):
        raise IllegalArgument(f"Invalid create requirements: [{', '.join(others)}]")
    for requirement in parsed:
        requirement.check(base)


def parse_requirements(requirements: object) -> tuple[TableRequirement, ...]:
    """Parses all requirements of a request. Raises BadRequest for the first invalid one."""
    if not isinstance(requirements, list | tuple):
        raise BadRequest(f"Cannot parse requirements from non-array: {show(requirements)}")
    return tuple(requirement if isinstance(requirement, TableRequirement) else _parse(requirement) for requirement in requirements)


def is_creation(requirements: Iterable[Json]) -> bool:
    """Whether a commit with these requirements completes a staged create: they include `assert-create`."""
    # The kind of a requirement is case-insensitive, as in Java.
    return any(str(requirement.get("type")).lower() == ASSERT_CREATE for requirement in requirements)


def _parse(node: object) -> TableRequirement:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse update requirement from non-object value: {show(node)}")
    if node.get("type") is None:
        raise BadRequest("Cannot parse update requirement. Missing field: type")
    kind = get_string(node, "type").lower()
    if kind not in _PARSERS:
        raise BadRequest(f"Unrecognized update requirement. Cannot convert to json: {kind}")
    return TableRequirement(kind, _PARSERS[kind](node))


def _existing(base: Json | None) -> Json:
    if base is None:
        raise CommitFailed("Requirement failed: table does not exist")
    return base


def _assert_create(_: Json) -> Check:
    def check(base: Json | None) -> None:
        if base is not None:
            raise CommitFailed("Requirement failed: table already exists")

    return check


def _assert_table_uuid(node: Json) -> Check:
    uuid = get_string(node, "uuid")

    def check(base: Json | None) -> None:
        found = _existing(base)["table-uuid"]
        if found is None or found.lower() != uuid.lower():
            raise CommitFailed(f"Requirement failed: UUID does not match: expected {_shown(found)} != {uuid}")

    return check


def _assert_view_uuid(node: Json) -> Check:
    get_string(node, "uuid")

    def check(_: Json | None) -> None:
        raise ValidationFailed("Cannot validate AssertViewUUID against a table")

    return check


def _assert_ref_snapshot_id(node: Json) -> Check:
    name, expected = get_string(node, "ref"), get_long_or_none(node, "snapshot-id")

    def check(base: Json | None) -> None:
        ref = _existing(base)["refs"].get(name)
        if ref is None:
            if expected is not None:
                raise CommitFailed(f"Requirement failed: branch or tag {name} is missing, expected {expected}")
        elif expected is None:
            raise CommitFailed(f"Requirement failed: {ref['type']} {name} was created concurrently")
        elif ref["snapshot-id"] != expected:
            raise CommitFailed(f"Requirement failed: {ref['type']} {name} has changed: expected id {expected} != {ref['snapshot-id']}")

    return check


def _assert_id(field: str, key: str, what: str, *, of_existing: bool) -> Callable[[Json], Check]:
    """A requirement on one of the document's ids. `of_existing` -- the table must exist."""

    def parse(node: Json) -> Check:
        expected = get_int(node, field)

        def check(base: Json | None) -> None:
            if base is None and not of_existing:
                return
            found = _existing(base)[key]
            if found != expected:
                raise CommitFailed(f"Requirement failed: {what} changed: expected id {expected} != {found}")

        return check

    return parse


def _shown(uuid: str | None) -> str:
    return "null" if uuid is None else uuid


_PARSERS: dict[str, Callable[[Json], Check]] = {
    ASSERT_CREATE: _assert_create,
    "assert-table-uuid": _assert_table_uuid,
    "assert-view-uuid": _assert_view_uuid,
    "assert-ref-snapshot-id": _assert_ref_snapshot_id,
    "assert-last-assigned-field-id": _assert_id("last-assigned-field-id", "last-column-id", "last assigned field id", of_existing=False),
    "assert-last-assigned-partition-id": _assert_id(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id", of_existing=False
    ),
    "assert-current-schema-id": _assert_id("current-schema-id", "current-schema-id", "current schema", of_existing=True),
    "assert-default-spec-id": _assert_id("default-spec-id", "default-spec-id", "default partition spec", of_existing=True),
    "assert-default-sort-order-id": _assert_id("default-sort-order-id", "default-sort-order-id", "default sort order", of_existing=True),
}
