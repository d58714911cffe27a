"""Request bodies: what is refused, and how the refusal names field and rule."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.api.bodies import BodyReader, parse_json_object
from icecore.api.limits import ApiLimits
from icecore.api.origins import check_content_type
from icecore.domain.errors import BadRequest

LIMITS = ApiLimits(json_depth_max=10, json_values_max=1_000, properties_max=3, property_key_bytes_max=8, property_value_bytes_max=16)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)


def nesting(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(nesting, value.values()), default=0)
    return 1 + max(map(nesting, value), default=0) if isinstance(value, list) else 0


def holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(holds_nul(key) or holds_nul(inner) for key, inner in value.items())
    return any(map(holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Invalid body: empty, must be a JSON object"),
        (b"[]", "Invalid body: must be a JSON object"),
        (b'"text"', "Invalid body: must be a JSON object"),
        (b"null", "Invalid body: must be a JSON object"),
        (b'{"a": "\\u0000"}', "Invalid body: contains a NUL character (U+0000)"),
        (b'{"a\\u0000": 1}', "Invalid body: contains a NUL character (U+0000)"),
        (b'{"a": [{"b": ["\\u0000"]}]}', "Invalid body: contains a NUL character (U+0000)"),
        (b'{"a":' + b"[" * 10 + b"]" * 10 + b"}", "Invalid body: nested deeper than 10 levels"),
        (b'{"a":[' + b"1," * 1_000 + b"1]}", "Invalid body: contains more than 1000 values"),
    ],
)
def test_what_no_request_means_is_refused(body: bytes, message: str) -> None:
    """400 with this message."""
    with pytest.raises(BadRequest) as refusal:
        parse_json_object(body, LIMITS)
    assert message == refusal.value.message


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": "\xc0\xaf"}',
        b'{"a": "\x00"}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1}{"b": 2}',
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_what_is_not_json_in_utf_8_is_refused(body: bytes) -> None:
    """NaN, infinities, lone surrogates, broken UTF-8, raw NUL and trailing text are all not JSON."""
    with pytest.raises(BadRequest, match=r"^Invalid body: not JSON: "):
        parse_json_object(body, LIMITS)


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    """The escaped text backslash-u-0000 contains no NUL."""
    assert {"a": "\\u0000"} == parse_json_object(b'{"a": "\\\\u0000"}', LIMITS)


def test_unknown_fields_and_repeated_fields_are_taken() -> None:
    """The last value of a repeated key counts, as in clients' parsers."""
    assert {"a": 2, "unknown": {}} == parse_json_object(b'{"a": 1, "unknown": {}, "a": 2}', LIMITS)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4))
def test_a_document_within_the_limits_is_read_as_it_is(document: dict[str, Any]) -> None:
    """Only depth and NUL matter."""
    body = orjson.dumps(document)
    if nesting(document) > LIMITS.json_depth_max or holds_nul(document):
        with pytest.raises(BadRequest):
            parse_json_object(body, LIMITS)
    else:
        assert document == parse_json_object(body, LIMITS)


def test_a_bomb_of_brackets_is_refused_at_once() -> None:
    """Two hundred thousand levels cost less than 50 ms."""
    limits = ApiLimits()
    started = time.process_time()
    with pytest.raises(BadRequest):
        parse_json_object(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", limits)
    with pytest.raises(BadRequest):
        parse_json_object(b'{"a":' * 200_000 + b"1" + b"}" * 200_000, limits)
    assert time.process_time() - started < 0.1


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', "application/vnd.iceberg+json"],
)
def test_content_types_of_clients_pass(content_type: str) -> None:
    """JSON in UTF-8, however it is spelled."""
    check_content_type(content_type)


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        (None, "Invalid header 'Content-Type': must be application/json"),
        ("text/plain", "Invalid header 'Content-Type': must be application/json"),
        ("", "Invalid header 'Content-Type': must be application/json"),
        ("application/x-www-form-urlencoded", "Invalid header 'Content-Type': must be application/json"),
        ("application/json; charset=latin-1", "Invalid header 'Content-Type': the charset must be utf-8"),
        ("application/json; charset=nonsense", "Invalid header 'Content-Type': the charset must be utf-8"),
    ],
)
def test_other_content_types_are_refused(content_type: str | None, message: str) -> None:
    """The refusal says what is accepted."""
    with pytest.raises(BadRequest) as refusal:
        check_content_type(content_type)
    assert message == refusal.value.message


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        ("text", None, "Missing field 'field'"),
        ("text", 1, "Invalid field 'field': must be a string"),
        ("text_or_none", [], "Invalid field 'field': must be a string"),
        ("boolean", "true", "Invalid field 'field': must be true or false"),
        ("boolean", 1, "Invalid field 'field': must be true or false"),
        ("object", None, "Missing field 'field'"),
        ("object", [], "Invalid field 'field': must be an object"),
        ("object_or_none", "x", "Invalid field 'field': must be an object"),
        ("properties", [], "Invalid field 'field': must be an object whose values are strings"),
        ("properties", {"a": 1}, "Invalid field 'field': must be an object whose values are strings"),
        ("properties", {"a": None}, "Invalid field 'field': must be an object whose values are strings"),
        ("properties", {"a": "", "b": "", "c": "", "d": ""}, "Invalid field 'field': has more than 3 properties"),
        ("properties", {"ééééé": ""}, "Invalid field 'field': has a key longer than 8 bytes"),
        ("properties", {"a": "x" * 17}, "Invalid field 'field': has a value longer than 16 bytes"),
        ("namespace", None, "Missing field 'field'"),
        ("namespace", "a", "Invalid field 'field': must be a list"),
        ("namespace", [1], "Invalid field 'field': must be a list of strings"),
        ("namespace", ["x"] * 17, "Invalid field 'field': has more than 16 elements"),
        ("namespace", [], "Invalid field 'field': Invalid namespace: must have at least one level"),
        ("namespace", [""], "Invalid field 'field': Invalid namespace level: must not be empty"),
    ],
)
def test_a_refused_field_is_named_with_its_rule(reader: str, value: object, message: str) -> None:
    """The message names the field and the rule."""
    with pytest.raises(BadRequest) as refusal:
        getattr(BodyReader({"field": value}, LIMITS), reader)("field")
    assert message == refusal.value.message


def test_fields_inside_fields_are_named_by_their_path() -> None:
    """The message contains the path to the field."""
    fields = BodyReader({"table-changes": [{}, {}, {"identifier": {"namespace": ["a"], "name": 3}}]}, LIMITS)
    with pytest.raises(BadRequest) as refusal:
        fields.each("table-changes", 3)[2].identifier("identifier", "table name")
    assert "Invalid field 'table-changes[2].identifier.name': must be a string" == refusal.value.message


def test_an_explicit_null_is_an_absent_field() -> None:
    """Clients send `"location": null` and the like."""
    fields = BodyReader({"field": None}, LIMITS)
    assert (None, None, False, {}, [], []) == (
        fields.text_or_none("field"),
        fields.object_or_none("field"),
        fields.boolean("field"),
        fields.properties("field"),
        fields.objects("field", 1),
        fields.texts("field", 1),
    )
