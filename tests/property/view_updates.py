"""Hypothesis strategies for views: schemas, versions, valid and invalid updates, documents, and JSON with one invalid member.

Everything is drawn from small pools, so that equal schemas and versions, dialects that differ by case and existing ids are frequent.
Timestamps are far in the past and ids are not negative (see `tests/oracle/Oracle.java`), because Java's builder recurses without end for a
version -1 of an empty view.
"""

import copy
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

VIEW_UUID = "0191d9a6-0000-7000-8000-00000000000a"
NOW_MS = 1_600_000_000_000

_SCHEMAS: list[Json] = [
    {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]},
    {"type": "struct", "identifier-field-ids": [1], "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]},
    {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key ✨"}]},
    {
        "type": "struct",
        "fields": [
            {"id": 3, "name": "Straße", "required": False, "type": "decimal(9, 2)"},
            {
                "id": 7,
                "name": "tags",
                "required": False,
                "type": {"type": "list", "element-id": 8, "element": "string", "element-required": True},
            },
        ],
    },
    {"type": "struct", "fields": []},
]

_TABLE_UPDATES: list[Json] = [
    {"action": "set-current-schema", "schema-id": 0},
    {"action": "set-default-spec", "spec-id": 0},
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "remove-schemas", "schema-ids": [0]},
]


def _mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any], one_in: int = 8) -> st.SearchStrategy[Any]:
    return st.integers(1, one_in).flatmap(lambda n: rare if n == one_in else usual)


def schemas() -> st.SearchStrategy[Json]:
    return st.builds(
        lambda schema, schema_id: schema | ({} if schema_id is None else {"schema-id": schema_id}),
        st.sampled_from(_SCHEMAS),
        st.sampled_from([None, 0, 1, 5]),
    )


def _sql(dialect: str, sql: str = "select 1") -> Json:
    return {"type": "sql", "sql": sql, "dialect": dialect}


def representations() -> st.SearchStrategy[list[Json]]:
    usual = st.sampled_from(
        [
            [_sql("spark")],
            [_sql("spark")],
            [_sql("spark", "select 2")],
            [_sql("Spark"), _sql("trino")],
            [_sql("trino"), _sql("SPARK") | {"type": "SQL"}],
        ]
    )
    any_sql = st.lists(st.builds(_sql, st.sampled_from(["spark", "Spark", "trino", "duckdb"])), max_size=3)
    return _mostly(usual, any_sql | st.just([{"type": "Substrait", "plan": "…"}]), 12)


def versions(version_ids: st.SearchStrategy[int], schema_ids: st.SearchStrategy[int]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "version-id": version_ids,
            "timestamp-ms": st.integers(1_500_000_000_000, 1_500_000_000_003),
            "schema-id": schema_ids,
            "summary": st.sampled_from([{}, {}, {"engine-name": "spark"}]),
            "default-namespace": _mostly(st.just(["a"]), st.sampled_from([[], ["a", "b"], ["ünï"]])),
            "representations": representations(),
        },
        optional={"default-catalog": st.sampled_from([None, None, "prod", ""])},
    )


def _properties() -> st.SearchStrategy[dict[str, str]]:
    size = _mostly(st.sampled_from(["1", "2", "3", "+2", "007"]), st.sampled_from(["0", "-1", "two", "", "1.0", "2147483648", "0x1", "٢ "]))
    drop = st.sampled_from(["true", "TRUE", "false", "yes"])
    return st.fixed_dictionaries(
        {}, optional={"version.history.num-entries": size, "replace.drop-dialect.allowed": drop, "comment": st.sampled_from(["", "x"])}
    )


def updates() -> st.SearchStrategy[Json]:
    """One update: well formed, but possibly invalid for the view."""
    removals = st.lists(st.sampled_from(["comment", "version.history.num-entries", "replace.drop-dialect.allowed", "none"]), max_size=3)
    added = st.builds(
        lambda version: {"action": "add-view-version", "view-version": version},
        versions(st.integers(0, 6), st.sampled_from([-1, -1, 0, 0, 0, 1, 1, 2, 9])),
    )
    current = st.builds(
        lambda i: {"action": "set-current-view-version", "view-version-id": i}, st.sampled_from([-1, -1, -1, 0, 1, 2, 3, 9])
    )
    schema = st.builds(lambda schema: {"action": "add-schema", "schema": schema}, schemas())
    scalars = st.sampled_from(
        [
            {"action": "assign-uuid", "uuid": VIEW_UUID},
            {"action": "assign-uuid", "uuid": VIEW_UUID},
            {"action": "assign-uuid", "uuid": VIEW_UUID.upper()},
            {"action": "upgrade-format-version", "format-version": 1},
            {"action": "set-location", "location": "s3://b/views/one"},
            {"action": "SET-LOCATION", "location": "s3://b/views/two/"},
        ]
    )
    properties = st.one_of(
        st.builds(lambda p: {"action": "set-properties", "updates": p}, _properties()),
        st.builds(lambda p: {"action": "set-properties", "updated": p}, _properties()),
        st.builds(lambda r: {"action": "remove-properties", "removals": r}, removals),
        st.builds(lambda r: {"action": "remove-properties", "removed": r, "removals": []}, removals),
    )
    wrong = st.sampled_from(
        [
            *_TABLE_UPDATES,
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "upgrade-format-version", "format-version": 0},
            {"action": "make-coffee"},
        ]
    )
    return _mostly(st.one_of(added, added, current, current, schema, scalars, properties), wrong, 30)


def replacements() -> st.SearchStrategy[list[Json]]:
    """The updates of CREATE OR REPLACE VIEW."""
    return st.builds(
        lambda schema, version, schema_id, version_id: [
            {"action": "add-schema", "schema": schema},
            {"action": "add-view-version", "view-version": version | {"schema-id": schema_id}},
            {"action": "set-current-view-version", "view-version-id": version_id},
        ],
        schemas(),
        versions(st.integers(0, 6), st.just(0)),
        st.sampled_from([-1, 0, 0]),
        st.sampled_from([-1, -1, -1, 1, 2]),
    )


def commits() -> st.SearchStrategy[list[list[Json]]]:
    """The updates of successive commits."""
    some = st.lists(updates(), max_size=4)
    return st.lists(st.one_of(replacements(), some, st.builds(list.__add__, replacements(), some)), min_size=3, max_size=8)


def births() -> st.SearchStrategy[list[Json]]:
    """Updates that create a view, with others between them."""
    first = versions(st.integers(0, 3), st.sampled_from([-1, -1, 0]))
    between = st.lists(updates(), max_size=2)
    return st.builds(
        lambda one, version, two: [
            {"action": "assign-uuid", "uuid": VIEW_UUID},
            {"action": "set-location", "location": "s3://b/v"},
            {"action": "add-schema", "schema": _SCHEMAS[0]},
            *one,
            {"action": "add-view-version", "view-version": version},
            *two,
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
        between,
        first,
        between,
    )


def creations() -> st.SearchStrategy[Json]:
    """A CreateViewRequest."""
    return st.fixed_dictionaries(
        {
            "location": st.sampled_from(["s3://b/v", "file:/tmp/v/"]),
            "schema": schemas(),
            "view-version": versions(st.integers(0, 6), st.sampled_from([-1, 0, 4])),
            "properties": _properties(),
        }
    )


@st.composite
def documents(draw: st.DrawFn) -> Json:
    """A view metadata file with up to 14 versions, from any writer."""
    version_ids = draw(st.lists(st.integers(0, 20), min_size=1, max_size=14, unique=True))
    schema_ids = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
    document: Json = {
        "view-uuid": VIEW_UUID,
        "format-version": draw(_mostly(st.just(1), st.sampled_from([0, 2, -1]), 30)),
        "location": "s3://b/v",
        "schemas": [draw(schemas()) | {"schema-id": schema_id} for schema_id in schema_ids],
        "current-version-id": draw(_mostly(st.sampled_from(version_ids), st.just(99), 20)),
        "versions": [draw(versions(st.just(i), _mostly(st.sampled_from(schema_ids), st.just(9), 40))) for i in version_ids],
        "version-log": [
            {"timestamp-ms": 1_500_000_000_000 + i, "version-id": draw(st.sampled_from([*version_ids, 50]))}
            for i in range(draw(st.integers(0, 5)))
        ],
        "unknown-key": [1],
    }
    if draw(st.booleans()):
        document["properties"] = draw(_properties())
    if draw(_mostly(st.just(False), st.just(True), 20)):
        document["versions"].append(document["versions"][0])
    return document


_JUNK: list[Any] = [None, True, 0, 1.5, 2**31, 2**63, -(2**70), "", "junk", [], {}, ["x", None], {"a": 1}, [[]]]


@st.composite
def broken(draw: st.DrawFn, intact: st.SearchStrategy[Json]) -> Json:
    """`intact` with one member, at any depth, missing or replaced."""
    value = copy.deepcopy(draw(intact))
    node: Any = value
    while True:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if isinstance(node[key], (dict, list)) and node[key] and draw(st.booleans()):
            node = node[key]
            continue
        if draw(st.booleans()) and isinstance(node, dict):
            del node[key]
        else:
            node[key] = draw(st.sampled_from(_JUNK))
        return value


def junk() -> st.SearchStrategy[Any]:
    """Any JSON value, with meaningful keys among others."""
    keys = st.sampled_from(["action", "type", "schema", "view-version", "versions", "schemas", "fields", "summary", "uuid", "x"])
    leaves = st.one_of(
        st.sampled_from(_JUNK), st.sampled_from(["add-schema", "add-view-version", "assert-view-uuid", "struct"]), st.text(max_size=3)
    )
    return st.recursive(
        leaves, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)), max_leaves=12
    )
