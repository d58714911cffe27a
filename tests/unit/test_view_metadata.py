"""View metadata: the result of a commit, and the error messages."""

import copy
from typing import Any

import pytest

from icecore.domain.errors import BadRequest, CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from icecore.domain.view_metadata import apply_view_updates, check_view_requirements, new_view_metadata, parse_view_metadata

Json = dict[str, Any]

VIEW_UUID = "0191d9a6-0000-7000-8000-000000000001"
CREATED_MS = 1_700_000_000_000
NOW_MS = 1_700_000_009_000

ID_ONLY: Json = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
ID_AND_NAME: Json = {"type": "struct", "fields": [*ID_ONLY["fields"], {"id": 2, "name": "name", "required": False, "type": "string"}]}


def query(sql: str, dialect: str = "spark") -> Json:
    return {"type": "sql", "sql": sql, "dialect": dialect}


def version(*representations: Json, version_id: int = 1, schema_id: int = 0, timestamp_ms: int = NOW_MS, **others: Any) -> Json:
    return {
        "version-id": version_id,
        "timestamp-ms": timestamp_ms,
        "schema-id": schema_id,
        "summary": {},
        "default-namespace": ["ns"],
        "representations": list(representations),
        **others,
    }


def a_view(*representations: Json, properties: dict[str, str] | None = None) -> Json:
    return new_view_metadata(
        view_uuid=VIEW_UUID,
        location="s3://bucket/view",
        schema=ID_ONLY,
        view_version=version(*(representations or [query("select 1")])),
        properties=properties or {},
        now_ms=CREATED_MS,
    )


def commit(view: Json | None, *updates: Json) -> Json:
    return apply_view_updates(view, updates, now_ms=NOW_MS)


def add_version(added: Json) -> Json:
    return {"action": "add-view-version", "view-version": added}


def set_current(version_id: int) -> Json:
    return {"action": "set-current-view-version", "view-version-id": version_id}


def replaced(view: Json, number_of_times: int) -> Json:
    """The view after that many replacements, each in a separate commit, with versions 2, 3, …"""
    for number in range(2, 2 + number_of_times):
        view = commit(view, add_version(version(query(f"select {number}"), timestamp_ms=CREATED_MS + number)), set_current(-1))
    return view


def version_ids(view: Json) -> list[int]:
    return [one["version-id"] for one in view["versions"]]


def history(view: Json) -> list[tuple[int, int]]:
    return [(entry["version-id"], entry["timestamp-ms"] - CREATED_MS) for entry in view["version-log"]]


def test_a_new_view_has_version_one_dated_now() -> None:
    """The client's id, time and schema id are ignored; its summary and namespace are kept."""
    sent = version(query("select 1"), version_id=7, schema_id=3, timestamp_ms=5, summary={"engine-name": "spark"})
    view = new_view_metadata(
        view_uuid=VIEW_UUID,
        location="s3://bucket/view",
        schema={**ID_ONLY, "schema-id": 9},
        view_version=sent,
        properties={"comment": "x"},
        now_ms=CREATED_MS,
    )
    expected = {
        "view-uuid": VIEW_UUID,
        "format-version": 1,
        "location": "s3://bucket/view",
        "properties": {"comment": "x"},
        "schemas": [{"type": "struct", "schema-id": 0, "fields": ID_ONLY["fields"]}],
        "current-version-id": 1,
        "versions": [{**sent, "version-id": 1, "schema-id": 0, "timestamp-ms": CREATED_MS}],
        "version-log": [{"timestamp-ms": CREATED_MS, "version-id": 1}],
    }
    assert expected == view


@pytest.mark.parametrize(
    ("representations", "message"),
    [
        ([], "Cannot create view without specifying a query"),
        ([{"type": "Substrait"}], "Found unsupported view representations: [substrait]"),
        ([query("a", "Spark"), query("b", "spark")], "Invalid view version: Cannot add multiple queries for dialect spark"),
    ],
)
def test_a_view_needs_one_query_per_dialect(representations: list[Json], message: str) -> None:
    """Refused are no query, a representation other than SQL, and two queries for one dialect."""
    with pytest.raises(IllegalArgument) as refusal:
        new_view_metadata(
            view_uuid=VIEW_UUID, location="l", schema=ID_ONLY, view_version=version(*representations), properties={}, now_ms=CREATED_MS
        )
    assert message == refusal.value.message


def test_a_replaced_view_keeps_its_past() -> None:
    """A new version gets the next id and becomes current. The history has its own time."""
    view = commit(a_view(), add_version(version(query("select 2"), timestamp_ms=CREATED_MS + 5)), set_current(-1))
    assert 2 == view["current-version-id"]
    assert [1, 2] == version_ids(view)
    assert [(1, 0), (2, 5)] == history(view)


def test_an_equal_version_is_used_again() -> None:
    """A version with the same behaviour as an old one gets no new id. Returning to it is dated now."""
    view = replaced(a_view(), 1)
    back = commit(view, add_version(version(query("select 1"), version_id=9, timestamp_ms=3)), set_current(1))
    assert [1, 2] == version_ids(back)
    assert [(1, 0), (2, 2), (1, NOW_MS - CREATED_MS)] == history(back)


def test_last_added_needs_something_added_in_this_commit() -> None:
    """-1 refers to a version that this commit added, not to an existing one."""
    view = a_view()
    for updates in ([set_current(-1)], [add_version(version(query("select 1"))), set_current(-1)]):
        with pytest.raises(ValidationFailed, match="Cannot set last version id: no current version id has been set"):
            commit(view, *updates)
    with pytest.raises(ValidationFailed, match="Cannot set last added schema: no schema has been added"):
        commit(view, add_version(version(query("select 2"), schema_id=-1)))


def test_a_version_may_stand_on_the_schema_added_with_it() -> None:
    """Schema -1 is the one added last. An equal schema is reused and not added."""
    view = commit(
        a_view(),
        {"action": "add-schema", "schema": ID_AND_NAME},
        {"action": "add-schema", "schema": {**ID_ONLY, "schema-id": 5}},
        add_version(version(query("select 2"), schema_id=-1)),
        set_current(-1),
    )
    assert [0, 1] == [schema["schema-id"] for schema in view["schemas"]]
    assert 1 == view["versions"][1]["schema-id"]


def test_ten_versions_are_kept() -> None:
    """The oldest versions are removed, with the history up to them. The current one is first and always kept."""
    view = replaced(a_view(), 10)
    assert [11, 10, 9, 8, 7, 6, 5, 4, 3, 2] == version_ids(view)
    assert list(range(2, 12)) == [number for number, _ in history(view)]
    two_kept = commit(view, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}}, set_current(4))
    assert [4, 11] == version_ids(two_kept)
    assert [(11, 11), (4, NOW_MS - CREATED_MS)] == history(two_kept)


def test_versions_added_together_are_all_kept() -> None:
    """All versions of one commit are kept, whatever the history size."""
    added = [add_version(version(query(f"select {number}"))) for number in (2, 3, 4)]
    view = commit(a_view(properties={"version.history.num-entries": "1"}), *added)
    assert [1, 2, 3, 4] == version_ids(view)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("0", "version.history.num-entries must be positive but was 0"),
        ("-03", "version.history.num-entries must be positive but was -3"),
        ("many", 'For input string: "many"'),
        (" 5", 'For input string: " 5"'),
        ("1_0", 'For input string: "1_0"'),
        ("2147483648", 'For input string: "2147483648"'),
        ("9" * 3000, f'For input string: "{"9" * 3000}"'),
    ],
)
def test_the_history_size_must_be_a_positive_int(size: str, message: str) -> None:
    """Sizes that Java cannot parse, or that would keep nothing, are refused with its message."""
    with pytest.raises(IllegalArgument) as refusal:
        commit(a_view(), {"action": "set-properties", "updates": {"version.history.num-entries": size}})
    assert message == refusal.value.message


def test_a_dialect_is_not_lost_unless_that_is_allowed() -> None:
    """Replacing a view must not remove a dialect. Dialects are case-insensitive."""
    view = a_view(query("select 1", "Spark"), query("select 1", "trino"))
    spark_only = [add_version(version(query("select 2"))), set_current(-1)]
    with pytest.raises(ValidationFailed) as refusal:
        commit(view, *spark_only)
    expected = "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
    assert expected + "Previous dialects: [spark, trino]\nNew dialects: [spark]" == refusal.value.message
    allowed = commit(view, {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "True"}}, *spark_only)
    assert 2 == allowed["current-version-id"]


def test_what_does_not_change_is_the_same_object() -> None:
    """A commit without effect returns its base. Others share every unchanged element and modify nothing."""
    view = a_view(properties={"a": "1"})
    before = copy.deepcopy(view)
    nothing: list[Json] = [
        {"action": "assign-uuid", "uuid": VIEW_UUID},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "s3://bucket/view"},
        {"action": "add-schema", "schema": ID_ONLY},
        {"action": "set-properties", "updates": {}},
        {"action": "remove-properties", "removals": []},
        add_version(version(query("select 1"))),
        set_current(1),
    ]
    assert commit(view, *nothing) is view
    changed = commit(view, add_version(version(query("select 2"))), {"action": "remove-properties", "removals": ["a"]})
    assert before == view
    assert {} == changed["properties"]
    assert changed["versions"][0] is view["versions"][0]
    assert changed["schemas"] is view["schemas"]
    assert changed["version-log"] is view["version-log"]


@pytest.mark.parametrize(
    ("update", "error", "message"),
    [
        ({"action": "assign-uuid", "uuid": "other"}, IllegalArgument, "Cannot reassign uuid"),
        ({"action": "upgrade-format-version", "format-version": 0}, IllegalArgument, "Cannot downgrade v1 view to v0"),
        ({"action": "upgrade-format-version", "format-version": 2}, IllegalArgument, "Unsupported format version: 2"),
        (set_current(4), IllegalArgument, "Cannot set current version to unknown version: 4"),
        (add_version(version(query("s"), schema_id=4)), IllegalArgument, "Cannot add version with unknown schema: 4"),
        (
            add_version(version(query("s"), version_id=2**31 - 1, schema_id=True)),
            BadRequest,
            "Cannot parse to an integer value: schema-id: true",
        ),
        (add_version(version({"type": "Plan"})), IllegalArgument, "Cannot serialize unsupported view representation: plan"),
        ({"action": "set-location", "location": None}, BadRequest, "Cannot parse to a string value: location: null"),
        ({"action": "set-location"}, BadRequest, "Cannot parse missing string: location"),
        ({"action": "add-snapshot"}, BadRequest, "Cannot apply update AddSnapshot to a view"),
        ({"action": "make-coffee"}, BadRequest, "Cannot convert metadata update action to json: make-coffee"),
        ({"uuid": VIEW_UUID}, BadRequest, "Cannot parse metadata update. Missing field: action"),
    ],
)
def test_an_update_that_cannot_be_is_refused(update: Json, error: type[CatalogError], message: str) -> None:
    """Each has its error and message."""
    with pytest.raises(error) as refusal:
        commit(a_view(), update)
    assert message == refusal.value.message


def test_ids_end_where_java_integers_end() -> None:
    """No id is assigned that Java could not parse."""
    view = commit(a_view(), add_version(version(query("select 2"), version_id=2**31 - 1)))
    with pytest.raises(IllegalArgument, match="Cannot assign a version-id above 2147483647"):
        commit(view, add_version(version(query("select 3"))))


def test_a_view_of_nothing_needs_location_version_and_uuid() -> None:
    """Without a base, the updates must contain everything that a view needs."""
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": VIEW_UUID},
        {"action": "set-location", "location": "l"},
        {"action": "add-schema", "schema": ID_ONLY},
        add_version(version(query("select 1"))),
        set_current(-1),
    ]
    assert [(1, NOW_MS - CREATED_MS)] == history(commit(None, *updates))
    for missing, message in (
        (0, "Cannot set uuid to null"),
        (1, "Invalid location: null"),
        (4, "Cannot find current version 0 in view versions"),
    ):
        with pytest.raises(IllegalArgument, match=message):
            commit(None, *updates[:missing], *updates[missing + 1 :])


def test_the_only_requirement_is_the_view_uuid() -> None:
    """assert-view-uuid is case-insensitive. Other requirements are invalid for a view."""
    view = a_view()
    check_view_requirements(view, [{"type": "assert-view-uuid", "uuid": VIEW_UUID.upper()}])
    with pytest.raises(CommitFailed, match=r"Requirement failed: view UUID does not match: expected .* != x$"):
        check_view_requirements(view, [{"type": "assert-view-uuid", "uuid": "x"}])
    with pytest.raises(ValidationFailed, match="Cannot validate AssertTableDoesNotExist against a view"):
        check_view_requirements(view, [{"type": "assert-create"}])
    with pytest.raises(BadRequest, match="Unrecognized update requirement"):
        check_view_requirements(view, [{"type": "assert-rain"}])


def test_a_written_view_reads_back() -> None:
    """A document is its own canonical form. Members that the view spec does not define are dropped."""
    view = replaced(a_view(properties={"a": "1"}), 3)
    assert view == parse_view_metadata({**view, "unknown": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-version-id": 5}, "Cannot find current version 5 in view versions: [1]"),
        ({"schemas": []}, "Cannot find current schema with id 0 in schemas: []"),
        ({"format-version": 2}, "Unsupported format version: 2"),
        ({"versions": "none"}, 'Cannot parse versions from non-array: "none"'),
        ({"version-log": None}, "Cannot parse missing field: version-log"),
        ({"versions": [version(query("a")), version(query("b"))]}, "Multiple entries with same key: 1"),
        ({"versions": [version({"type": "plan"})]}, "Cannot serialize unsupported view representation: plan"),
        ({"versions": [version(query("a")) | {"default-namespace": ["a\0b"]}]}, "Cannot create a namespace with the null-byte character"),
    ],
)
def test_a_file_no_reader_could_use_is_refused(change: Json, message: str) -> None:
    """An invalid file or one of a later version is not registered."""
    with pytest.raises((IllegalArgument, BadRequest)) as refusal:
        parse_view_metadata({**a_view(), **change})
    assert message == refusal.value.message
