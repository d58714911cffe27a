"""Schemas: parsing, refusals, finding and numbering columns."""

from itertools import count
from typing import Any

import pytest

from icecore.domain.errors import BadRequest, CatalogError, IllegalArgument, ValidationFailed
from icecore.domain.metadata.schemas import SchemaIndex, assign_fresh_ids, check_compatibility, parse_schema, same_schema
from icecore.domain.metadata.types import parse_type_name

Json = dict[str, Any]


def column(field_id: int, name: str, type_: Any = "int", *, required: bool = False, **more: Any) -> Json:
    return {"id": field_id, "name": name, "required": required, "type": type_, **more}


def struct(*columns: Json) -> Json:
    return {"type": "struct", "fields": list(columns)}


def list_of(element_id: int, element: Any) -> Json:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": False}


def map_of(key_id: int, key: Any, value_id: int, value: Any) -> Json:
    return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False}


NESTED = struct(
    column(1, "id", "long", required=True),
    column(2, "points", list_of(3, struct(column(4, "x"), column(5, "y")))),
    column(6, "props", map_of(7, "string", 8, struct(column(9, "z")))),
)


@pytest.mark.parametrize(
    ("canonical", "sent"),
    [
        ("long", "LONG"),
        ("decimal(9, 2)", "decimal( 9,2 )"),
        ("fixed[16]", "fixed[ 016 ]"),
        ("geometry", "geometry(OGC:CRS84)"),
        ("geometry(srid:1)", "Geometry ( srid:1 )"),
        ("geography", "geography"),
        ("geography(OGC:CRS84, karney)", "geography(ogc:crs84,KARNEY)"),
        ("timestamptz_ns", "timestamptz_ns"),
    ],
)
def test_type_names_become_canonical(canonical: str, sent: str) -> None:
    """Case, spaces and default parameters do not matter."""
    assert canonical == parse_type_name(sent)


def test_a_long_type_name_is_refused_at_once() -> None:
    """The pattern takes linear time."""
    with pytest.raises(IllegalArgument):
        parse_type_name("geography(" + " " * 1_000_000 + "!")


def test_a_schema_is_read_into_its_canonical_form() -> None:
    """Given a schema with unknown members and nulls, then only the spec's members remain, in its order."""
    sent = {**struct(column(1, "a", "DECIMAL(9,2)", required=True, doc=None, extra=1)), "identifier-field-ids": [1, 1]}
    field = {"id": 1, "name": "a", "required": True, "type": "decimal(9, 2)"}
    expected = {"type": "struct", "schema-id": 0, "identifier-field-ids": [1], "fields": [field]}
    parsed = parse_schema(sent)
    assert expected == parsed
    assert list(expected) == list(parsed)


@pytest.mark.parametrize(
    ("refusal", "message", "schema"),
    [
        (BadRequest, "Cannot parse type from json: 7", 7),
        (IllegalArgument, "Cannot create schema, not a struct type: int", "int"),
        (BadRequest, "Cannot parse missing field: fields", {"type": "struct"}),
        (BadRequest, 'Cannot parse struct field from non-object: "x"', {"type": "struct", "fields": ["x"]}),
        (BadRequest, "Cannot parse to an integer value: id: true", struct({**column(1, "a"), "id": True})),
        (BadRequest, "Cannot parse to an integer value: id: 2147483648", struct(column(2**31, "a"))),
        (BadRequest, "Cannot parse missing boolean: required", struct({"id": 1, "name": "a", "type": "int"})),
        (ValidationFailed, "Invalid schema: multiple fields for name a: 1 and 2", struct(column(1, "a"), column(2, "a"))),
        (IllegalArgument, "Multiple entries with same key: 1=a and 1=b", struct(column(1, "a"), column(1, "b"))),
        (IllegalArgument, "Cannot create required field with unknown type: u", struct(column(1, "u", "unknown", required=True))),
        (
            IllegalArgument,
            "Cannot add field a as an identifier field: not a required field",
            {**struct(column(1, "a")), "identifier-field-ids": [1]},
        ),
        (
            IllegalArgument,
            "Cannot add field element as an identifier field: must not be nested in 2: points: required list<int>",
            {
                **struct(column(2, "points", {**list_of(3, "int"), "element-required": True}, required=True)),
                "identifier-field-ids": [3],
            },
        ),
        (
            IllegalArgument,
            "Cannot add field f as an identifier field: must not be float or double field",
            {**struct(column(1, "f", "double", required=True)), "identifier-field-ids": [1]},
        ),
    ],
)
def test_a_wrong_schema_is_refused_in_java_words(refusal: type[CatalogError], message: str, schema: Any) -> None:
    """The error and the message are the reference's."""
    with pytest.raises(refusal) as refused:
        parse_schema(schema)
    assert message == refused.value.message


def test_a_schema_nested_without_end_is_refused() -> None:
    """Without exhausting the stack."""
    type_: Any = "int"
    for level in range(2_000):
        type_ = list_of(level + 2, type_)
    with pytest.raises(BadRequest, match="nested deeper than 100 levels"):
        parse_schema(struct(column(1, "deep", type_)))


def test_columns_are_found_by_full_and_by_short_name() -> None:
    """Short names may omit structs in lists and map values."""
    index = SchemaIndex(parse_schema(NESTED))
    assert {"points.element.x": 4, "points.x": 4, "props.value.z": 9, "props.z": 9, "props.key": 7}.items() <= index.ids.items()
    assert index.names[5] == "points.element.y"
    assert [2, 3] == sorted(field["id"] for field in index.ancestors(4))
    assert index.highest_field_id() == 9


def test_fresh_ids_go_level_by_level() -> None:
    """Top-level columns first, then nested ones. Identifier fields are matched by name."""
    fresh = assign_fresh_ids(parse_schema({**NESTED, "identifier-field-ids": [1]}), 0, count(1).__next__)
    expected = {"id": 1, "points": 2, "props": 3, "points.element": 4, "points.element.x": 5, "points.element.y": 6}
    names = {name: field_id for field_id, name in SchemaIndex(fresh).names.items()}
    assert expected | {"props.key": 7, "props.value": 8, "props.value.z": 9} == names
    assert fresh["identifier-field-ids"] == [1]


def test_equal_schemas_are_the_same_whatever_their_ids() -> None:
    """The schema id does not matter; docs, defaults and identifier fields do."""
    plain = parse_schema(struct(column(1, "a", required=True)))
    assert same_schema(plain, {**plain, "schema-id": 7})
    assert not same_schema(plain, {**plain, "identifier-field-ids": [1]})
    assert not same_schema(plain, parse_schema(struct(column(1, "a", required=True, doc="x"))))
    zeros = [parse_schema(struct(column(1, "d", "double", **{"write-default": zero}))) for zero in (0.0, -0.0)]
    assert not same_schema(*zeros)


@pytest.mark.parametrize(
    ("canonical", "type_", "sent"),
    [
        ("1.50", "decimal(9,2)", "1.50"),
        ("1.50", "decimal(9,2)", "1.50".rjust(1_100, "0")),
        ("0.01", "decimal(9,2)", "1E-2"),
        ("00FF", "binary", "00ff"),
        ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7"),
        ("10:15:00", "time", "10:15"),
        ("2024-05-06T07:08:09.12+00:00", "timestamptz", "2024-05-06T07:08:09.120Z"),
        ("2024-05-06T07:08:09.123456", "timestamp", "2024-05-06T07:08:09.123456789"),
        ("2024-05-06T07:08:09.123456789", "timestamp_ns", "2024-05-06T07:08:09.123456789"),
        (0.1, "float", 0.1),
        (0.12345679, "float", 0.1234567890123),
        ("2024-02-29", "date", "2024-02-29"),
        ("2024-01-01", "date", "2024-01-01"),
        ("2024-12-31", "date", "2024-12-31"),
    ],
)
def test_defaults_become_canonical(canonical: Any, type_: str, sent: Any) -> None:
    """Defaults are stored in the single-value form, as the reference writes them."""
    parsed = parse_schema(struct(column(1, "a", type_, **{"initial-default": sent})))
    assert canonical == parsed["fields"][0]["initial-default"]


@pytest.mark.parametrize(
    ("type_", "sent"),
    [
        *[
            ("int", True),
            ("int", 2**31),
            ("long", 1.5),
            ("double", 1),
            ("float", 1e39),
            ("boolean", 0),
            ("string", 1),
            ("date", "2023-02-29"),
        ],
        *[
            ("time", "24:00"),
            ("timestamptz", "2024-05-06T07:08:09+02:00"),
            ("timestamp_ns", "1500-01-01T00:00:00"),
            ("uuid", "f79c"),
            ("binary", "0"),
        ],
        ("decimal(9,2)", "1.50".rjust(1_101, "0")),
        *[("fixed[2]", "00"), ("decimal(9,2)", "1.5"), ("decimal(9,2)", "9" * 100_000 + "x"), ("decimal(9, 999999999)", "1E-999999999")],
        *[("variant", "x"), ("geometry", "POINT(0 0)"), (list_of(2, "int"), []), (struct(column(2, "b")), {})],
    ],
)
def test_defaults_of_another_type_are_refused(type_: Any, sent: Any) -> None:
    """400 if the default is not a value of the type."""
    with pytest.raises((BadRequest, IllegalArgument)):
        parse_schema(struct(column(1, "a", type_, **{"write-default": sent})))


@pytest.mark.parametrize("type_", ["timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"])
def test_types_of_version_3_are_refused_before_it(type_: str) -> None:
    index = SchemaIndex(parse_schema(struct(column(1, "n", type_))))
    for version in (1, 2):
        with pytest.raises(IllegalArgument, match=f"Invalid type for n: {type_}.* is not supported until v3"):
            check_compatibility(index, version)
    check_compatibility(index, 3)


def test_types_and_defaults_of_later_versions_are_refused() -> None:
    """In version 2, nanoseconds and initial defaults are refused. Write defaults are permitted."""
    schema = struct(column(1, "n", "timestamp_ns"), column(2, "d", "int", **{"initial-default": 3}), column(3, "w", **{"write-default": 3}))
    index = SchemaIndex(parse_schema(schema))
    with pytest.raises(IllegalArgument) as refused:
        check_compatibility(index, 2)
    assert (
        "Invalid schema for v2:\n- Invalid type for n: timestamp_ns is not supported until v3\n"
        "- Invalid initial default for d: non-null default (3) is not supported until v3"
    ) == refused.value.message
    check_compatibility(index, 3)
