"""Rules for JSON from request bodies and metadata files: what passes can be written again and kept in the log.

The parser itself refuses NaN, infinities, lone surrogates and bytes that are not UTF-8.
"""

import re
from collections.abc import Iterator
from typing import Any

DEPTH_MAX = 128
"""Arrays and objects inside one another; a struct column costs three levels per nesting."""

_INTEGERS = 2**63
_ESCAPED_NUL = b"\\u0000"


# What makes a character of a text take two bytes, and four: UTF-8's leading bytes and escapes.
_TWO_BYTES_WIDE = re.compile(rb"[\xc4-\xf4]|\\u(?!00)")
_FOUR_BYTES_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_SHORT_TEXT_BYTES = 64
# A search holds the interpreter's lock: no longer than some milliseconds.
_SEARCHED_BYTES = 256 * 1024


def count_values(data: bytes) -> int:
    """How many values the JSON holds at most, objects counted twice: they take the most memory. What stands in texts counts too."""
    return data.count(b",") + data.count(b"[") + 2 * data.count(b"{")


def widened_bytes(data: bytes) -> int:
    """About how many bytes more than in `data` the texts take at most once they are parsed; short ones are not counted.

    Python keeps each character of a text as wide as the widest of them: one beyond U+FFFF makes all of a text take four bytes each.
    """
    if data.isascii() and b"\\u" not in data:
        return 0
    if b"\\" in data:
        # As long as before; each quote that is left opens or closes a text.
        data = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    widened, end = 0, -1
    while (start := data.find(b'"', end + 1)) >= 0 and (end := data.find(b'"', start + 1)) >= 0:
        if end - start > _SHORT_TEXT_BYTES:
            widened += (end - start) * (_width(data, start, end) - 1)
    return widened


def _width(data: bytes, start: int, end: int) -> int:
    """Bytes for each character of the text that stands there."""
    width = 1
    for at in range(start, end, _SEARCHED_BYTES):
        # What an escape needs behind its backslash may stand beyond.
        until = min(end, at + _SEARCHED_BYTES + len(b"ud8"))
        if _FOUR_BYTES_WIDE.search(data, at, until):
            return 4
        if width == 1 and _TWO_BYTES_WIDE.search(data, at, until):
            width = 2
    return width


def broken_rule(data: bytes, document: Any, depth_max: int = DEPTH_MAX) -> str | None:
    """The rule that the document parsed from `data` breaks, as the end of a sentence; None where it breaks none."""
    # Brackets bound the depth from above, so that ordinary documents are not walked at all.
    if data.count(b"{") + data.count(b"[") > depth_max and _is_deeper(document, depth_max):
        return f"nested deeper than {depth_max} levels"
    if _ESCAPED_NUL in data and any("\0" in text for text in _texts(document)):
        return "contains a NUL character (U+0000)"
    return None


def holds_large_number(value: Any) -> bool:
    """A number outside 64 bits, which not every reader keeps as it is: the parser makes such an integer a float."""
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
