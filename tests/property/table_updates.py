"""Hypothesis strategies for tables: schemas, specs, orders, snapshots, valid and invalid commits, and invalid JSON."""

import copy
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

TABLE_UUID = "9C12D441-03FE-4693-9A96-A0705DDF69C1"
OTHER_UUID = "0191d9a6-0000-7000-8000-00000000000b"
START_MS = 1_600_000_000_000
NOW_MS = 1_700_000_000_000
COMMIT_EVERY_MS = 600_000
"""Commits are ten minutes apart, more than Java's tolerance for different clocks."""
FAR_FUTURE_MS = 4_000_000_000_000

NAMES = ["id", "name", "ts", "day", "a", "b", "element", "key", "a.b", "x"]
PRIMITIVES = [
    *("int", "long", "string", "timestamptz", "date", "boolean", "double", "float", "time", "timestamp", "uuid", "binary"),
    *("decimal(9,2)", "DECIMAL( 38 , 0 )", "fixed[4]", "fixed[ 16 ]"),
]
LATER_PRIMITIVES = [
    *("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography", "geometry(EPSG:3857)", "geometry(ogc:crs84)"),
    *("geography(OGC:CRS84, karney)", "geography(srid:1 , Vincenty)", "geography(srid:1)"),
]
WRONG_TYPES = ["decimal(39, 1)", "strng", "fixed[]", "geometry()", "geography(, karney)", "geography(a, b)", "fixed[99999999999]", ""]
DEFAULTS: dict[str, list[Any]] = {
    "int": [0, 34, -1, 2**31, "1"],
    "long": [0, 2**40, 2**63, 1.5],
    "string": ["", "a", 'q"q', 3],
    "boolean": [True, False, 0],
    "double": [0.5, -0.25, 1],
    "float": [0.5, -0.25, 1],
    "date": ["2024-02-29", "0001-01-01", 19],
    "time": ["10:15:30", "23:59:59.5", "10:15"],
    "timestamp": ["2024-05-06T07:08:09.123456", "2024-05-06T07:08"],
    "timestamptz": ["2024-05-06T07:08:09.120+00:00", "2024-05-06T07:08:09Z", "2024-05-06T07:08:09+02:00"],
    "timestamp_ns": ["2024-05-06T07:08:09.123456789"],
    "timestamptz_ns": ["2024-05-06T07:08:09.123456789+00:00"],
    "uuid": ["F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09"],
    "binary": ["", "00ff", "ABCD"],
    "fixed[4]": ["00112233", "aabbccdd", "00"],
    "decimal(9,2)": ["1.50", "-0.01", "1.5", "x", "0.00"],
}
TRANSFORMS = ["identity", "bucket[16]", "truncate[4]", "day", "month", "year", "hour", "void"]
ODD_TRANSFORMS = ["Identity", "BUCKET[08]", "zorder", "bucket", "bucket[x]", "bucket[0]", "truncate[0]", "Day", "bucket[99999999999]"]


def chance(percent: int) -> st.SearchStrategy[bool]:
    """True in about `percent` of a hundred draws, shrinking to False."""
    return st.integers(0, 99).map(lambda number: number >= 100 - percent)


@st.composite
def types(draw: st.DrawFn, depth: int = 0) -> Any:
    kind = draw(st.integers(0, 11))
    if kind == 9 and depth < 2:
        return draw(lists(depth))
    if kind == 10 and depth < 2:
        return draw(maps(depth))
    if kind == 11 and depth < 2:
        return {"type": "struct", "fields": draw(fields(depth + 1, 3))}
    if kind == 8:
        return draw(st.sampled_from(LATER_PRIMITIVES if draw(chance(90)) else WRONG_TYPES))
    return draw(st.sampled_from(PRIMITIVES))


@st.composite
def lists(draw: st.DrawFn, depth: int) -> Json:
    required = draw(st.booleans())
    return {"type": "list", "element-id": draw(st.integers(20, 90)), "element": draw(types(depth + 1)), "element-required": required}


@st.composite
def maps(draw: st.DrawFn, depth: int) -> Json:
    parts = {"key-id": draw(st.integers(20, 90)), "key": draw(types(depth + 1)), "value-id": draw(st.integers(20, 90))}
    return {"type": "map", **parts, "value": draw(types(depth + 1)), "value-required": draw(st.booleans())}


@st.composite
def field(draw: st.DrawFn, field_id: int, name: str, depth: int = 0) -> Json:
    type_ = draw(types(depth))
    made: Json = {"id": field_id, "name": name, "required": draw(st.booleans()), "type": type_}
    if draw(chance(10)):
        made["doc"] = draw(st.sampled_from(["a doc", "", "ö"]))
    for key, percent in (("initial-default", 8), ("write-default", 12)):
        if isinstance(type_, str) and type_ in DEFAULTS and draw(chance(percent)):
            made[key] = draw(st.sampled_from(DEFAULTS[type_]))
    return made


@st.composite
def fields(draw: st.DrawFn, depth: int, size_max: int) -> list[Json]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=size_max, unique=True))
    first = draw(st.integers(20, 90)) if depth else 1
    return [draw(field(first + position, name, depth)) for position, name in enumerate(names)]


@st.composite
def schemas(draw: st.DrawFn) -> Json:
    """A new schema. Ids count from 0 or 1 and are sometimes repeated."""
    schema: Json = {"type": "struct", "fields": draw(fields(0, 5))}
    if draw(chance(15)):
        schema["fields"] = [{**column, "id": column["id"] - 1} for column in schema["fields"]]
    if draw(st.booleans()):
        schema["schema-id"] = draw(st.integers(0, 3))
    if draw(chance(20)):
        ids = [column["id"] for column in schema["fields"]]
        schema["identifier-field-ids"] = draw(st.lists(st.sampled_from([*ids, 77]), max_size=3))
    return schema


@st.composite
def evolved_schemas(draw: st.DrawFn, document: Json) -> Json:
    """One of the table's schemas with a column added, dropped, renamed, retyped or moved; or a different one."""
    if not document["schemas"] or draw(chance(10)):
        return draw(schemas())
    schema: Json = copy.deepcopy(draw(st.sampled_from(document["schemas"])))
    columns: list[Json] = schema["fields"]
    change = draw(st.integers(0, 6))
    position = draw(st.integers(0, max(len(columns) - 1, 0)))
    if change == 1 or not columns:
        new_id = document["last-column-id"] + 1 if draw(chance(90)) else draw(st.integers(1, 9))
        columns.append(draw(field(new_id, draw(st.sampled_from([*NAMES, "new", "newer"])))))
    elif change == 2:
        del columns[position]
    elif change == 3:
        columns[position]["name"] = draw(st.sampled_from([*NAMES, "renamed"]))
    elif change == 4:
        columns[position]["type"] = draw(types())
    elif change == 5:
        columns[position]["required"] = not columns[position]["required"]
    elif change == 6:
        columns.reverse()
    schema["schema-id"] = draw(st.sampled_from([schema["schema-id"], 0, 7]))
    return schema


def column_ids(document: Json) -> list[int]:
    """The top-level columns of the current schema, and one that does not exist."""
    current = [schema for schema in document["schemas"] if schema["schema-id"] == document["current-schema-id"]]
    return [*(column["id"] for column in current[0]["fields"]), 999] if current else [1]


def fitting_transforms(document: Json, column_id: int) -> list[str]:
    """Transforms that accept the column's type."""
    columns = [column for schema in document["schemas"] for column in schema["fields"] if column["id"] == column_id]
    type_ = columns[-1]["type"] if columns else None
    if not isinstance(type_, str) or type_.startswith(("geo", "variant")):
        return ["void"]
    if type_ in ("timestamp", "timestamptz", "date", "timestamp_ns", "timestamptz_ns"):
        return ["day", "month", "year", "bucket[4]", "identity", "void"]
    if type_ in ("int", "long", "string", "binary") or type_.startswith("decimal"):
        return ["identity", "bucket[16]", "truncate[4]", "void"]
    return ["identity", "void"]


@st.composite
def transforms(draw: st.DrawFn, document: Json, column_id: int) -> str:
    if draw(chance(80)):
        return draw(st.sampled_from(fitting_transforms(document, column_id)))
    return draw(st.sampled_from(TRANSFORMS + ODD_TRANSFORMS))


@st.composite
def specs(draw: st.DrawFn, document: Json) -> Json:
    if document["partition-specs"] and draw(chance(20)):
        return copy.deepcopy(draw(st.sampled_from(document["partition-specs"])))
    parts: list[Json] = []
    for position in range(draw(st.integers(0, 3))):
        source = draw(st.sampled_from(column_ids(document)[:-1] or [1])) if draw(chance(95)) else 999
        transform = draw(transforms(document, source))
        name = f"p{position}_{source}" if draw(chance(90)) else draw(st.sampled_from([*NAMES, ""]))
        parts.append({"name": name, "transform": transform, "source-id": source})
    numbering = draw(st.integers(0, 3))
    for position, part in enumerate(parts):
        if numbering == 1:
            part["field-id"] = 1_000 + position
        elif numbering == 2:
            part["field-id"] = document["last-partition-id"] + 1 + position
        elif numbering == 3:
            part["field-id"] = draw(st.integers(998, 1_004))
    if parts and draw(chance(3)):
        parts[0].pop("field-id", None)
    return {"spec-id": draw(st.integers(0, 4)), "fields": parts}


@st.composite
def sort_orders(draw: st.DrawFn, document: Json) -> Json:
    if document["sort-orders"] and draw(chance(20)):
        return copy.deepcopy(draw(st.sampled_from(document["sort-orders"])))
    parts: list[Json] = []
    for _ in range(draw(st.integers(0, 2))):
        source = draw(st.sampled_from(column_ids(document)[:-1] or [1])) if draw(chance(95)) else 999
        direction = draw(st.sampled_from(["asc", "desc", "ASC"])) if draw(chance(97)) else "up"
        nulls = draw(st.sampled_from(["nulls-first", "nulls-last", "Nulls-Last"])) if draw(chance(97)) else "nulls"
        transform = draw(transforms(document, source))
        parts.append({"transform": transform, "source-id": source, "direction": direction, "null-order": nulls})
    right = draw(st.integers(1, 4)) if parts else 0
    return {"order-id": right if draw(chance(97)) else draw(st.integers(0, 2)), "fields": parts}


@st.composite
def snapshots(draw: st.DrawFn, document: Json, position: int) -> Json:
    """Mostly a snapshot that can follow on the table's state. `position` counts those of one commit."""
    known = [snapshot["snapshot-id"] for snapshot in document["snapshots"]]
    snapshot: Json = {"snapshot-id": (max(known, default=0) + 1 + position) if draw(chance(92)) else draw(st.integers(-2, 4))}
    if document["format-version"] > 1 or draw(chance(3)):
        right = document["last-sequence-number"] + 1 + position
        snapshot["sequence-number"] = right if draw(chance(92)) else draw(st.integers(-1, 6))
    if draw(chance(80)) and known:
        snapshot["parent-snapshot-id"] = draw(st.sampled_from(known))
    log = document["snapshot-log"]
    last_ms = log[-1]["timestamp-ms"] if log else START_MS
    steps = [1_000, 1_000, 5_000, 0, -1_000, -59_999, 30_000] if draw(chance(94)) else [-60_001, -60_000, FAR_FUTURE_MS]
    snapshot["timestamp-ms"] = last_ms + draw(st.sampled_from(steps))
    if draw(chance(85)):
        summary = {"operation": "append", "added-records": "5"}
        snapshot["summary"] = summary if draw(chance(90)) else draw(st.sampled_from([{}, {"a": "b"}, {"operation": "delete"}]))
    if draw(chance(95)):
        snapshot["manifest-list"] = f"s3://b/t/metadata/snap-{snapshot['snapshot-id']}.avro"
    else:
        snapshot["manifests"] = ["s3://b/t/m0.avro"]
    if draw(st.booleans()):
        snapshot["schema-id"] = document["current-schema-id"]
    if document["format-version"] >= 3 or draw(chance(3)):
        snapshot |= draw(lineage(document, position))
    return snapshot


@st.composite
def lineage(draw: st.DrawFn, document: Json, position: int) -> Json:
    right = document["next-row-id"] + 5 * position
    sent = {"first-row-id": right if draw(chance(90)) else draw(st.integers(-1, 12)), "added-rows": 5}
    if draw(chance(10)):
        sent["key-id"] = "k1"
    return sent if draw(chance(95)) else {key: value for key, value in sent.items() if draw(st.booleans())}


def known_or(ids: list[int], others: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from(ids), others) if ids else others


def snapshot_ids(document: Json) -> st.SearchStrategy[int]:
    return known_or([snapshot["snapshot-id"] for snapshot in document["snapshots"]], st.integers(0, 5))


@st.composite
def statistics(draw: st.DrawFn, document: Json) -> Json:
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    if draw(st.booleans()):
        blob["properties"] = draw(st.sampled_from([{}, {"ndv": "5"}]))
    file = {"snapshot-id": draw(snapshot_ids(document)), "statistics-path": f"s3://b/s{draw(st.integers(0, 3))}.puffin"}
    sizes = {"file-size-in-bytes": 4_200, "file-footer-size-in-bytes": 42}
    return {**file, **sizes, "blob-metadata": draw(st.sampled_from([[], [blob], [blob, blob]]))}


@st.composite
def partition_statistics(draw: st.DrawFn, document: Json) -> Json:
    path = f"s3://b/p{draw(st.integers(0, 3))}.parquet"
    return {"snapshot-id": draw(snapshot_ids(document)), "statistics-path": path, "file-size-in-bytes": 43}


@st.composite
def references(draw: st.DrawFn, document: Json, snapshot_id: int | None = None) -> Json:
    name = draw(st.sampled_from(["main", "main", "b1", "b2", "t1"]))
    kind = draw(st.sampled_from(["branch", "tag"])) if name != "main" else "branch"
    chosen = draw(snapshot_ids(document)) if snapshot_id is None else snapshot_id
    update: Json = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": chosen}
    if draw(chance(15)):
        update["type"] = draw(st.sampled_from(["BRANCH", "Tag", "leaf"]))
    for key in ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"):
        if draw(chance(10)):
            update[key] = draw(st.sampled_from([1, 100, 0, -1, None]))
    return update


PROPERTIES = {
    "write.metadata.previous-versions-max": ["1", "2", "3", "0", "-5", "x", "+2"],
    "format-version": ["3"],
    "owner": ["ann", "bob", ""],
    "comment": ["ö"],
}


@st.composite
def properties(draw: st.DrawFn) -> dict[str, str]:
    keys = draw(st.lists(st.sampled_from(sorted(PROPERTIES)), unique=True, max_size=3))
    return {key: draw(st.sampled_from(PROPERTIES[key])) for key in keys}


def ids_of(document: Json, key: str, id_key: str) -> list[int]:
    return [part[id_key] for part in document[key]]


@st.composite
def schema_updates(draw: st.DrawFn, document: Json) -> list[Json]:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        ids = known_or(ids_of(document, "schemas", "schema-id"), st.integers(-1, 5))
        return [{"action": "set-current-schema", "schema-id": draw(ids)}]
    if kind == 1 and draw(chance(50)):
        ids = known_or(ids_of(document, "schemas", "schema-id"), st.integers(0, 5))
        return [{"action": "remove-schemas", "schema-ids": draw(st.lists(ids, max_size=2))}]
    added: list[Json] = [{"action": "add-schema", "schema": draw(evolved_schemas(document))}]
    if draw(chance(70)):
        added.append({"action": "set-current-schema", "schema-id": -1})
    return added


@st.composite
def spec_updates(draw: st.DrawFn, document: Json) -> list[Json]:
    ids = known_or(ids_of(document, "partition-specs", "spec-id"), st.integers(-1, 5))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return [{"action": "set-default-spec", "spec-id": draw(ids)}]
    if kind == 1 and draw(chance(50)):
        return [{"action": "remove-partition-specs", "spec-ids": draw(st.lists(ids, max_size=2))}]
    added: list[Json] = [{"action": "add-spec", "spec": draw(specs(document))}]
    if draw(chance(70)):
        added.append({"action": "set-default-spec", "spec-id": -1})
    return added


@st.composite
def order_updates(draw: st.DrawFn, document: Json) -> list[Json]:
    if draw(chance(25)):
        ids = known_or(ids_of(document, "sort-orders", "order-id"), st.integers(-1, 5))
        return [{"action": "set-default-sort-order", "sort-order-id": draw(ids)}]
    added: list[Json] = [{"action": "add-sort-order", "sort-order": draw(sort_orders(document))}]
    if draw(chance(70)):
        added.append({"action": "set-default-sort-order", "sort-order-id": -1})
    return added


@st.composite
def snapshot_updates(draw: st.DrawFn, document: Json) -> list[Json]:
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return [{"action": "remove-snapshots", "snapshot-ids": draw(st.lists(snapshot_ids(document), max_size=3))}]
    if kind == 1:
        name = draw(st.sampled_from(["main", *document["refs"], "gone"]))
        return [{"action": "remove-snapshot-ref", "ref-name": name}]
    if kind == 2:
        return [draw(references(document))]
    updates: list[Json] = []
    for position in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        snapshot = draw(snapshots(document, position))
        updates.append({"action": "add-snapshot", "snapshot": snapshot})
        if draw(chance(80)):
            updates.append(draw(references(document, snapshot["snapshot-id"])))
    return updates


@st.composite
def other_updates(draw: st.DrawFn, document: Json) -> list[Json]:
    kind = draw(st.integers(0, 11))
    snapshot_id = draw(snapshot_ids(document))
    key_id = draw(st.sampled_from(["k1", "k2"]))
    if kind == 0:
        return [{"action": "assign-uuid", "uuid": draw(st.sampled_from([TABLE_UUID, OTHER_UUID]))}]
    if kind == 1:
        return [{"action": "upgrade-format-version", "format-version": draw(st.sampled_from([1, 2, 2, 3, 3, 5, 0]))}]
    if kind == 2:
        return [{"action": "set-location", "location": draw(st.sampled_from(["s3://b/t", "s3://b/t2", "s3://b/t2//", "", "s3://"]))}]
    if kind == 3:
        return [{"action": "remove-properties", draw(st.sampled_from(["removals", "removed"])): ["owner", "absent"]}]
    if kind == 4:
        return [{"action": "set-statistics", "snapshot-id": 9, "statistics": draw(statistics(document))}]
    if kind == 5:
        return [{"action": "remove-statistics", "snapshot-id": snapshot_id}]
    if kind == 6:
        return [{"action": "set-partition-statistics", "partition-statistics": draw(partition_statistics(document))}]
    if kind == 7:
        return [{"action": "remove-partition-statistics", "snapshot-id": snapshot_id}]
    if kind == 8:
        key: Json = {"key-id": key_id, "encrypted-key-metadata": draw(st.sampled_from(["aGVsbG8=", "aGVsbG8", "", "?"]))}
        if draw(st.booleans()):
            key |= {"encrypted-by-id": "kms", "properties": draw(st.sampled_from([{}, {"a": "b"}]))}
        return [{"action": "add-encryption-key", "encryption-key": key}]
    if kind == 9:
        return [{"action": "remove-encryption-key", "key-id": key_id}]
    if kind == 10:
        strange = draw(st.sampled_from(["add-view-version", "dance", "Set-Location", None]))
        return [{"action": strange, "location": "s3://b/t3"}]
    return [{"action": "set-properties", draw(st.sampled_from(["updates", "updated"])): draw(properties())}]


@st.composite
def commits(draw: st.DrawFn, document: Json) -> list[Json]:
    """The updates of one request on `document`: mostly valid, some invalid, some malformed."""
    updates: list[Json] = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 2, 3, 4]))):
        kind = draw(st.integers(0, 9))
        if kind <= 1:
            updates += draw(schema_updates(document))
        elif kind <= 3:
            updates += draw(spec_updates(document))
        elif kind == 4:
            updates += draw(order_updates(document))
        elif kind <= 7:
            updates += draw(snapshot_updates(document))
        else:
            updates += draw(other_updates(document))
    if draw(chance(4)) and updates:
        position = draw(st.integers(0, len(updates) - 1))
        updates[position] = draw(broken(st.just(updates[position])))
    return updates


@st.composite
def requirements(draw: st.DrawFn, document: Json) -> list[Json]:
    """Requirements that hold of `document`, mostly."""
    asked: list[Json] = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        off_by = 0 if draw(chance(90)) else draw(st.sampled_from([1, -1]))
        asked.append(draw(st.sampled_from(every_requirement(document, off_by))))
    if draw(chance(2)):
        asked.append(draw(broken(st.sampled_from(every_requirement(document, 0)))))
    return asked


def every_requirement(document: Json, off_by: int) -> list[Json]:
    uuid = (document["table-uuid"] or OTHER_UUID) if not off_by else OTHER_UUID
    plain = [
        ("assert-last-assigned-field-id", "last-assigned-field-id", "last-column-id"),
        ("assert-last-assigned-partition-id", "last-assigned-partition-id", "last-partition-id"),
        ("assert-current-schema-id", "current-schema-id", "current-schema-id"),
        ("assert-default-spec-id", "default-spec-id", "default-spec-id"),
        ("assert-default-sort-order-id", "default-sort-order-id", "default-sort-order-id"),
    ]
    asked: list[Json] = [{"type": kind, name: document[key] + off_by} for kind, name, key in plain]
    asked.append({"type": "assert-table-uuid", "uuid": uuid.upper()})
    for name in ("main", "t1"):
        ref = document["refs"].get(name)
        asked.append({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref["snapshot-id"] + off_by if ref else None})
        if off_by:
            asked.append({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": None if ref else 5})
    if off_by:
        asked += [{"type": "assert-create"}, {"type": "assert-view-uuid", "uuid": uuid}, {"type": "assert-sunshine"}]
    return asked


CREATION_PROPERTIES = {
    "format-version": ["1", "2", "3", "3", "3", "5", "x"],
    "owner": ["ann"],
    "uuid": ["x"],
    "write.parquet.compression-codec": ["snappy"],
    "write.metadata.metrics.column.id": ["full", "counts", "nonsense"],
    "write.metadata.metrics.column.a.b": ["none"],
    "write.metadata.metrics.max-inferred-column-defaults": ["5", "x"],
    "commit.retry.num-retries": ["3", "-1", "many"],
    "encryption.key-id": ["k"],
}


@st.composite
def creations(draw: st.DrawFn) -> Json:
    """A CreateTableRequest."""
    schema = draw(schemas())
    shape = {"schemas": [{"schema-id": 0, **schema}], "current-schema-id": schema.get("schema-id", 0), "last-partition-id": 999}
    document = {**shape, "partition-specs": [], "sort-orders": []}
    keys = ["format-version"] if draw(chance(85)) else draw(st.lists(st.sampled_from(sorted(CREATION_PROPERTIES)), unique=True))
    return {
        "location": draw(st.sampled_from(["s3://b/t", "s3://b/t/", "file:///tmp/t"])),
        "schema": schema,
        "partition-spec": draw(st.none() | specs(document)),
        "write-order": draw(st.none() | sort_orders(document)),
        "properties": {key: draw(st.sampled_from(CREATION_PROPERTIES[key])) for key in keys},
    }


@st.composite
def broken_creations(draw: st.DrawFn) -> Json:
    """A creation with one wrong member in its schema, spec or order."""
    creation = draw(creations())
    shapes = {key: creation.pop(key) for key in ("schema", "partition-spec", "write-order")}
    return {**creation, **draw(broken(st.just(shapes)))}


@st.composite
def births(draw: st.DrawFn) -> list[Json]:
    """The updates of a staged create: those of the reference client, sometimes with one missing or others added."""
    schema = draw(schemas())
    shape = {"schemas": [{**schema, "schema-id": 0}], "current-schema-id": 0, "last-partition-id": 999, "last-column-id": 9}
    document = {**shape, "partition-specs": [], "sort-orders": [], "snapshots": [], "snapshot-log": [], "last-sequence-number": 0}
    document |= {"format-version": draw(st.sampled_from([1, 2, 3])), "next-row-id": 0, "refs": {}}
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": TABLE_UUID},
        {"action": "upgrade-format-version", "format-version": document["format-version"]},
        {"action": "add-schema", "schema": schema, "last-column-id": 9},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": draw(specs(document))},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": draw(sort_orders(document))},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://b/t"},
        {"action": "set-properties", "updates": {"owner": "ann"}},
    ]
    if draw(chance(20)):
        del updates[draw(st.integers(0, len(updates) - 1))]
    if draw(st.booleans()):
        updates += draw(snapshot_updates(document))
    if draw(chance(10)):
        updates += draw(commits(document))
    return updates


JUNK: list[Any] = [None, True, 0, -1, 2**31, 2**63, 1.5, "", "x", [], {}, [None], [{}], {"a": 1}]


@st.composite
def broken(draw: st.DrawFn, documents: st.SearchStrategy[Json]) -> Json:
    """A document with one member, at any depth, missing or replaced."""
    document = copy.deepcopy(draw(documents))
    place = draw(st.sampled_from(places(document, [])))
    *way, last = place
    inner: Any = document
    for step in way:
        inner = inner[step]
    if isinstance(inner, dict) and draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = draw(st.sampled_from(JUNK))
    return document


def places(value: Any, way: list[Any]) -> list[list[Any]]:
    """The path to every member at any depth."""
    steps: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for step in steps for place in ([*way, step], *places(value[step], [*way, step]))]


COLUMNS: list[Json] = [
    {"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key"},
    {"id": 2, "name": "ts", "required": False, "type": "timestamptz"},
    {"id": 3, "name": "name", "required": False, "type": "string"},
    {
        "id": 4,
        "name": "tags",
        "required": False,
        "type": {"type": "list", "element-id": 5, "element": "string", "element-required": True},
    },
    {
        "id": 6,
        "name": "at",
        "required": True,
        "type": {"type": "struct", "fields": [{"id": 7, "name": "x", "required": True, "type": "int"}]},
    },
]


@st.composite
def documents(draw: st.DrawFn) -> Json:
    """A metadata file of some writer: with snapshots, refs and logs, or only the fields of version 1."""
    version = draw(st.sampled_from([1, 2, 2, 3]))
    columns = COLUMNS[: draw(st.integers(1, len(COLUMNS)))]
    schema: Json = {"type": "struct", "schema-id": 0, "fields": columns}
    if draw(chance(30)):
        schema["identifier-field-ids"] = [1]
    spec = [{"name": "id_bucket", "transform": "bucket[16]", "source-id": 1, "field-id": 1000}] if draw(st.booleans()) else []
    order = [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}] if draw(st.booleans()) else []
    last_column_id = max(column["id"] for column in columns)
    document: Json = {"format-version": version, "location": "s3://b/t", "last-updated-ms": START_MS + 90_000}
    document |= {"last-column-id": last_column_id + (last_column_id in (4, 6)), "properties": draw(properties())}
    if version > 1 or draw(chance(80)):
        document["table-uuid"] = TABLE_UUID
    if version == 1 and draw(st.booleans()):
        document |= {"schema": schema, "partition-spec": spec}
        if draw(chance(20)) and spec:
            document["partition-spec"] = [{key: value for key, value in spec[0].items() if key != "field-id"}]
    else:
        orders = [{"order-id": 0, "fields": []}, *([{"order-id": 1, "fields": order}] if order else [])]
        document |= {"schemas": [schema], "current-schema-id": 0, "partition-specs": [{"spec-id": 0, "fields": spec}], "default-spec-id": 0}
        document |= {"last-partition-id": 999 + len(spec), "sort-orders": orders, "default-sort-order-id": len(orders) - 1}
    document |= draw(histories(version))
    if version > 1:
        document["last-sequence-number"] = len(document.get("snapshots", []))
    if draw(chance(10)):
        document["x-other-writer"] = {"kept": True}
    return document


@st.composite
def histories(draw: st.DrawFn, version: int) -> Json:
    """A history of snapshots, the last one current, with consistent refs, logs, statistics and keys."""
    number = draw(st.integers(0, 6))
    made: Json = {"snapshots": []} if number or draw(st.booleans()) else {}
    for snapshot_id in range(1, number + 1):
        snapshot: Json = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": START_MS + snapshot_id * 10_000,
            "manifest-list": f"s3://b/l{snapshot_id}",
        }
        snapshot["summary"] = {"operation": "append"}
        snapshot |= {"parent-snapshot-id": snapshot_id - 1} if snapshot_id > 1 else {}
        snapshot |= {"sequence-number": snapshot_id} if version > 1 else {}
        snapshot |= {"first-row-id": (snapshot_id - 1) * 5, "added-rows": 5} if version > 2 else {}
        made["snapshots"].append(snapshot)
    if version > 2:
        made["next-row-id"] = number * 5
    if number and draw(chance(85)):
        made["current-snapshot-id"] = number
        if draw(chance(85)):
            made["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}
            if draw(st.booleans()):
                made["refs"]["t1"] = {"snapshot-id": draw(st.integers(1, number)), "type": "tag", "max-ref-age-ms": 7}
        first = draw(st.integers(1, number))
        made["snapshot-log"] = [{"timestamp-ms": START_MS + i * 10_000, "snapshot-id": i} for i in range(first, number + 1)]
    elif draw(st.booleans()):
        made |= {"current-snapshot-id": draw(st.sampled_from([None, -1])), "refs": {}}
    files = draw(st.integers(0, 4))
    if draw(st.booleans()):
        made["metadata-log"] = [{"timestamp-ms": START_MS + i, "metadata-file": f"s3://b/t/m{i}.json"} for i in range(files)]
    shape = {"snapshots": made.get("snapshots", [])}
    if draw(chance(30)):
        made["statistics"] = draw(st.lists(statistics(shape), max_size=2, unique_by=lambda file: file["snapshot-id"]))
    if draw(chance(30)):
        made["partition-statistics"] = draw(st.lists(partition_statistics(shape), max_size=2, unique_by=lambda file: file["snapshot-id"]))
    if draw(chance(15)):
        made["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "aGVsbG8="}]
    return made
