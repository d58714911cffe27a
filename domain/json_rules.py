"""Rules for JSON from request bodies and metadata files, so that it can be stored in the log and written again.

The parser itself refuses NaN, infinities, lone surrogates and bytes that are not UTF-8.
"""

import re
from collections.abc import Iterator
from typing import Any

DEPTH_MAX = 128
"""Nested arrays and objects. Each nested struct column takes three levels."""

_INTEGERS = 2**63
_ESCAPED_NUL = b"\\u0000"


# UTF-8 leading bytes and escapes of characters that take two or four bytes in a Python string.
_TWO_BYTES_WIDE = re.compile(rb"[\xc4-\xf4]|\\u(?!00)")
_FOUR_BYTES_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_SHORT_TEXT_BYTES = 64
# A search holds the GIL, so each is limited to a few milliseconds.
_SEARCHED_BYTES = 256 * 1024


def count_values(data: bytes) -> int:
    """An upper bound on the number of values in the JSON. Objects count twice, as they take the most memory.

    Commas and brackets inside strings count too.
    """
    return data.count(b",") + data.count(b"[") + 2 * data.count(b"{")


def wide_string_bytes(data: bytes) -> int:
    """Estimates how many bytes more than in `data` the parsed strings take at most; short strings are not counted.

    Python stores all characters of a string as wide as its widest: one beyond U+FFFF makes each of them take four bytes.
    """
    if data.isascii() and b"\\u" not in data:
        return 0
    if b"\\" in data:
        # Keeps the length. Each remaining quote opens or closes a string.
        data = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    widened, end = 0, -1
    while (start := data.find(b'"', end + 1)) >= 0 and (end := data.find(b'"', start + 1)) >= 0:
        if end - start > _SHORT_TEXT_BYTES:
            widened += (end - start) * (_width(data, start, end) - 1)
    return widened


def _width(data: bytes, start: int, end: int) -> int:
    """Bytes per character of the string between `start` and `end`."""
    width = 1
    for at in range(start, end, _SEARCHED_BYTES):
        # An escape may extend beyond the range that is searched.
        until = min(end, at + _SEARCHED_BYTES + len(b"ud8"))
        if _FOUR_BYTES_WIDE.search(data, at, until):
            return 4
        if width == 1 and _TWO_BYTES_WIDE.search(data, at, until):
            width = 2
    return width


def violated_rule(data: bytes, document: Any, depth_max: int = DEPTH_MAX) -> str | None:
    """The rule that the document parsed from `data` violates, as the end of a sentence; None if it violates none."""
    # The number of brackets is an upper bound on the depth, so ordinary documents need not be traversed.
    if data.count(b"{") + data.count(b"[") > depth_max and _is_deeper(document, depth_max):
        return f"nested deeper than {depth_max} levels"
    if _ESCAPED_NUL in data and any("\0" in text for text in _texts(document)):
        return "contains a NUL character (U+0000)"
    return None


def holds_large_number(value: Any) -> bool:
    """Whether `value` contains a number outside 64 bits, which some readers change: the parser turns such an integer into a float."""
    nodes: list[Any] = [[value]]
    while nodes:
        for node in nodes:
            for inner in node.values() if isinstance(node, dict) else node:
                if isinstance(inner, float):
                    if abs(inner) >= _INTEGERS:
                        return True
                elif isinstance(inner, int) and not -_INTEGERS <= inner < _INTEGERS:
                    return True
        nodes = _children(nodes)
    return False


def _children(nodes: list[Any]) -> list[Any]:
    inner: list[Any] = []
    for node in nodes:
        values = node.values() if isinstance(node, dict) else node
        inner.extend(value for value in values if isinstance(value, (dict, list)))
    return inner


def _is_deeper(document: Any, depth_max: int) -> bool:
    depth, nodes = 0, [document]
    while nodes:
        depth += 1
        if depth > depth_max:
            return True
        nodes = _children(nodes)
    return False


def _texts(document: Any) -> Iterator[str]:
    nodes: list[Any] = [document]
    while nodes:
        for node in nodes:
            yield from (text for text in node if isinstance(text, str))
            if isinstance(node, dict):
                yield from (text for text in node.values() if isinstance(text, str))
        nodes = _children(nodes)
