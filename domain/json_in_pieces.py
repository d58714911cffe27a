"""Reads and writes large JSON in pieces, because a call of orjson holds the GIL until it returns."""

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import orjson

WHOLE_BYTES_MAX = 1024 * 1024
"""Documents up to this size are parsed in one call, which takes a few milliseconds."""

ELEMENTS_WHOLE_MAX = 500
"""How many elements of a list are serialized in one call, which takes about a millisecond."""

_PIECE_BYTES = 256 * 1024
# A bracket that is found may be inside a string or an element. A document in which that happens more often is parsed in one call.
_PIECES_FAILED_MAX = 16
_FIRST_MARK = 7_203_186_659_421
_BETWEEN_ELEMENTS = re.compile(rb"\}\s*,\s*(?=\{)")
_AFTER_LAST_ELEMENT = re.compile(rb"\}\s*(?=\])")


def loads_in_pieces(data: bytes, path: Sequence[str]) -> Any:
    """As `orjson.loads`, but parses the list of objects at `path` (member names from the top) in several calls.

    Raises orjson.JSONDecodeError. Call it in a thread, so that other threads can run between the pieces.
    """
    if len(data) > WHOLE_BYTES_MAX:
        opening = re.search(rb'"' + re.escape(path[-1].encode()) + rb'"\s*:\s*\[\s*(?=\{)', data)
        found = None if opening is None else _elements(data, opening.end())
        if opening is not None and found is not None:
            elements, end = found
            if (document := _around(data, opening.end(), end, path, elements)) is not None:
                return document
    return orjson.loads(data)


def dumps_in_pieces(document: Any, path: Sequence[str]) -> Iterator[bytes]:
    """As `orjson.dumps`, in pieces, each with some elements of a long list at `path` (member names from the top).

    Call it in a thread, like `loads_in_pieces`.
    """
    long = document
    for name in path:
        long = long.get(name) if isinstance(long, dict) else None
    if isinstance(long, list) and len(long) > ELEMENTS_WHOLE_MAX:
        yield from _members_written(document, path)
    else:
        yield orjson.dumps(document)


def _members_written(holder: dict[str, Any], path: Sequence[str]) -> Iterator[bytes]:
    opening = b"{"
    for name, member in holder.items():
        yield opening + orjson.dumps(name) + b":"
        if name != path[0]:
            yield orjson.dumps(member)
        elif len(path) > 1:
            yield from _members_written(member, path[1:])
        else:
            yield from _elements_written(member)
        opening = b","
    yield b"}"


def _elements_written(elements: list[Any]) -> Iterator[bytes]:
    for start in range(0, len(elements), ELEMENTS_WHOLE_MAX):
        yield (b"[" if start == 0 else b",") + orjson.dumps(elements[start : start + ELEMENTS_WHOLE_MAX])[1:-1]
    yield b"]"


def _elements(data: bytes, start: int) -> tuple[list[Any], int] | None:
    """The objects of a list whose first begins at `start`, and the end of its bytes; None if they are hard to separate.

    A piece ends where the parser accepts it as whole elements. As it begins with an element, it cannot be read in another way.
    """
    elements: list[Any] = []
    failed, seen = 0, start + _PIECE_BYTES
    while failed < _PIECES_FAILED_MAX:
        between = _BETWEEN_ELEMENTS.search(data, seen)
        piece = None if between is None else _list_or_none(data[start : between.start() + 1])
        if piece is not None and between is not None:
            elements += piece
            start, seen = between.end(), between.end() + _PIECE_BYTES
            continue
        # The boundary found may belong to a later list, if this list ends before it.
        for last in _AFTER_LAST_ELEMENT.finditer(data, start, len(data) if between is None else between.start()):
            if (piece := _list_or_none(data[start : last.start() + 1])) is not None:
                return elements + piece, last.end()
            failed += 1
            if failed > _PIECES_FAILED_MAX:
                return None
        if between is None:
            return None
        failed, seen = failed + 1, between.end()
    return None


def _list_or_none(piece: bytes) -> list[Any] | None:
    try:
        elements: list[Any] = orjson.loads(b"[" + piece + b"]")
    except orjson.JSONDecodeError:
        return None
    return elements


def _around(data: bytes, start: int, end: int, path: Sequence[str], elements: list[Any]) -> Any:
    """The document with `elements` in place of the bytes from `start` to `end`; None if these are not the list at `path`."""
    # A number that occurs nowhere else replaces the bytes. If it is found at `path`, the bytes were the list at `path`.
    mark = next(number for number in count(_FIRST_MARK) if b"%d" % number not in data)
    document = orjson.loads(data[:start] + b"%d" % mark + data[end:])
    holder = document
    for name in path[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or holder.get(path[-1]) != [mark]:
        return None
    holder[path[-1]] = elements
    return document
