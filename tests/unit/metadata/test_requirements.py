"""Requirements of a commit: which pass, which fail, and the messages."""

from typing import Any

import pytest

from icecore.domain.errors import BadRequest, CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from icecore.domain.metadata.requirements import check_requirements, is_creation, parse_requirements
from tests.unit.metadata.tables import after, new_table, ref, table_with_snapshots

Json = dict[str, Any]

UUID = "11111111-0000-7000-8000-000000000001"


def id_is(name: str, value: int) -> Json:
    return {"type": f"assert-{name}", name: value}


def ref_is(name: str, snapshot_id: int | None) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": UUID.upper()},
        {"type": "Assert-Table-UUID", "uuid": UUID},
        id_is("last-assigned-field-id", 3),
        id_is("last-assigned-partition-id", 999),
        id_is("current-schema-id", 0),
        id_is("default-spec-id", 0),
        id_is("default-sort-order-id", 0),
        ref_is("main", 2),
        ref_is("absent", None),
        {"type": "assert-ref-snapshot-id", "ref": "absent"},
    ],
)
def test_what_holds_passes(requirement: Json) -> None:
    """Given a table in the state that the client saw."""
    check_requirements(table_with_snapshots(2), [requirement])


@pytest.mark.parametrize(
    ("message", "requirement"),
    [
        ("table already exists", {"type": "assert-create"}),
        (f"UUID does not match: expected {UUID} != other", {"type": "assert-table-uuid", "uuid": "other"}),
        ("last assigned field id changed: expected id 2 != 3", id_is("last-assigned-field-id", 2)),
        ("last assigned partition id changed: expected id 1000 != 999", id_is("last-assigned-partition-id", 1000)),
        ("current schema changed: expected id 1 != 0", id_is("current-schema-id", 1)),
        ("default partition spec changed: expected id 1 != 0", id_is("default-spec-id", 1)),
        ("default sort order changed: expected id 1 != 0", id_is("default-sort-order-id", 1)),
        ("branch main has changed: expected id 1 != 2", ref_is("main", 1)),
        ("branch main was created concurrently", ref_is("main", None)),
        ("tag t was created concurrently", ref_is("t", None)),
        ("branch or tag absent is missing, expected 1", ref_is("absent", 1)),
    ],
)
def test_what_does_not_hold_is_a_conflict(message: str, requirement: Json) -> None:
    """The client may refresh and retry. The messages are the reference's."""
    table = after(table_with_snapshots(2), ref(1, "t", "tag"))
    with pytest.raises(CommitFailed) as refusal:
        check_requirements(table, [requirement])
    assert f"Requirement failed: {message}" == refusal.value.message


def test_a_table_that_is_not_there() -> None:
    """`assert-create` passes, as do assertions on last assigned ids. The others fail."""
    check_requirements(None, [{"type": "assert-create"}])
    check_requirements(None, [id_is("last-assigned-field-id", 3), id_is("last-assigned-partition-id", 3)])
    with pytest.raises(CommitFailed, match="table does not exist"):
        check_requirements(None, [{"type": "assert-table-uuid", "uuid": UUID}])


def test_the_first_that_fails_is_reported() -> None:
    """They are checked in the order of the request."""
    with pytest.raises(CommitFailed, match="current schema changed"):
        check_requirements(new_table(), [id_is("default-spec-id", 0), id_is("current-schema-id", 4), id_is("default-spec-id", 4)])


@pytest.mark.parametrize(
    ("refusal", "message", "requirements"),
    [
        (BadRequest, "Cannot parse requirements from non-array: {}", {}),
        (BadRequest, "Cannot parse update requirement from non-object value: 5", [5]),
        (BadRequest, "Cannot parse update requirement. Missing field: type", [{}]),
        (BadRequest, "Unrecognized update requirement. Cannot convert to json: assert-sunshine", [{"type": "assert-sunshine"}]),
        (BadRequest, "Cannot parse missing int: current-schema-id", [{"type": "assert-current-schema-id"}]),
        (ValidationFailed, "Cannot validate AssertViewUUID against a table", [{"type": "assert-view-uuid", "uuid": "u"}]),
        (
            IllegalArgument,
            "Invalid create requirements: [assert-table-uuid]",
            [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "u"}],
        ),
    ],
)
def test_requirements_that_cannot_be_meant_are_refused(refusal: type[CatalogError], message: str, requirements: Any) -> None:
    """Unknown kinds, missing fields, and `assert-create` with other requirements are 400."""
    with pytest.raises(refusal) as refused:
        check_requirements(new_table(), requirements)
    assert (message, 400) == (refused.value.message, refused.value.status)


def test_parsed_requirements_are_checked_again_without_reading() -> None:
    """A transaction that is decided again parses them once."""
    check_requirements(new_table(), parse_requirements([id_is("current-schema-id", 0)]))


def test_a_commit_that_asserts_its_creation_is_one() -> None:
    """Case-insensitively. Invalid requirements are ignored here and refused when they are parsed."""
    assert is_creation([id_is("current-schema-id", 0), {"type": "ASSERT-CREATE"}])
    assert not is_creation([id_is("current-schema-id", 0), {}, {"type": None}])
