"""Rules for JSON from clients: depth, NUL characters, and large numbers."""

from typing import Any

import orjson
import pytest

from icecore.domain.json_rules import DEPTH_MAX, holds_large_number, violated_rule, wide_string_bytes


def nested(levels: int) -> bytes:
    return b'{"a":' * (levels // 2) + b"[" * (levels - levels // 2) + b"]" * (levels - levels // 2) + b"}" * (levels // 2)


@pytest.mark.parametrize(
    ("rule", "data"),
    [
        (None, b"1"),
        (None, nested(4)),
        ("nested deeper than 4 levels", nested(5)),
        (None, b"[" + b",".join([b"[[]]", b'{"a": {}}'] * 100) + b"]"),
        ("nested deeper than 4 levels", b"[" + b",".join([b"[[]]"] * 100 + [b'{"a": [[[]]]}']) + b"]"),
        (None, b'"[[[[[[[[[["'),
        (None, b'{"a": "[{[{[{[{[{"}'),
    ],
    ids=["a number", "as deep as may be", "deeper", "wide", "wide, and deep at its end", "brackets in a text", "brackets in a value"],
)
def test_depth_is_bounded_and_width_is_not(rule: str | None, data: bytes) -> None:
    """Brackets are counted first. A document with many is traversed."""
    assert rule == violated_rule(data, orjson.loads(data), 4)


def test_the_bound_is_the_product_s_where_none_is_given() -> None:
    """One level more is refused."""
    for levels, rule in ((DEPTH_MAX, None), (DEPTH_MAX + 1, f"nested deeper than {DEPTH_MAX} levels")):
        data = nested(levels)
        assert rule == violated_rule(data, orjson.loads(data))


@pytest.mark.parametrize(
    "data", [b'"\\u0000"', b'{"a\\u0000": 1}', b'{"a": "b\\u0000c"}', b'[1, ["\\u0000"]]', b'{"a": [{"b": "\\u0000"}]}']
)
def test_a_nul_is_found_wherever_it_is(data: bytes) -> None:
    """In keys and values at every depth."""
    document = orjson.loads(data)
    assert "contains a NUL character (U+0000)" == violated_rule(data, [document])


def test_what_only_looks_like_a_nul_is_none() -> None:
    """An escaped backslash before the letters."""
    data = b'{"a": "\\\\u0000"}'
    assert violated_rule(data, orjson.loads(data)) is None


@pytest.mark.parametrize(
    ("large", "number"),
    [
        *((False, number) for number in (0, 2**63 - 1, -(2**63), 1.5, -9e18, True)),
        *((True, number) for number in (2**63, 2**64, -(2**63) - 1, 2.0**63, -(2.0**63), 1e300)),
    ],
)
def test_numbers_beyond_64_bits_are_found_wherever_they_are(large: bool, number: Any) -> None:
    """As values, in arrays and in objects, beside other values."""
    for value in (number, [number], {"a": number}, [[], {"a": ["x", None, {"b": [0, number, 1]}]}, []]):
        assert large == holds_large_number(value)


@pytest.mark.parametrize(
    ("widened", "text"),
    [
        (0, '["' + "a" * 100 + '", "' + "\u00e9" * 100 + '"]'),
        (303, '["' + "a" * 96 + "\U0001f600" + '"]'),
        (303, '["' + "a" * 88 + '\\ud83d\\ude00"]'),
        (303, '"' + "a" * 96 + '\U0001f600"'),
        (101, '["' + "a" * 94 + '\\u20ac"]'),
        (0, '["' + "a" * 50 + "\U0001f600" + '"]'),
        (0, '{"\u20ac": "' + "a" * 100 + '", "b": "\u20ac"}'),
        (404, '{"a": "' + "a" * 96 + '\U0001f600", "' + "\u20ac" * 33 + "a" + '": ""}'),
    ],
)
def test_texts_are_as_wide_as_their_widest_character(widened: int, text: str) -> None:
    """Long strings count with their bytes times the additional width of a character."""
    assert widened == wide_string_bytes(text.encode())
