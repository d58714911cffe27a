"""Large JSON parsed in pieces: the result is the same as in one call."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.domain import json_in_pieces
from icecore.domain.json_in_pieces import dumps_in_pieces, loads_in_pieces

# Brackets in strings, where a piece must not end.
texts = st.text(alphabet='ab"\\},{][: \n', max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
members = st.dictionaries(texts, values, max_size=3)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every document large and every piece a few bytes long."""
    monkeypatch.setattr(json_in_pieces, "WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr(json_in_pieces, "ELEMENTS_WHOLE_MAX", 3)
    monkeypatch.setattr(json_in_pieces, "_PIECE_BYTES", 8)
    monkeypatch.setattr(json_in_pieces, "_PIECES_FAILED_MAX", 1_000)


@given(members, st.lists(members, max_size=8), members, st.booleans())
def test_equal_to_what_is_read_at_once(before: dict[str, Any], elements: list[Any], after: dict[str, Any], indented: bool) -> None:
    """Whatever precedes, is in or follows the list."""
    document = {**before, "snapshots": elements, **after}
    data = orjson.dumps(document, option=orjson.OPT_INDENT_2 if indented else None)
    read = loads_in_pieces(data, ("snapshots",))
    assert document == read
    assert [*document] == [*read]


def test_no_call_of_the_parser_reads_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece has the requested length plus one element."""
    longest = 0
    loads = orjson.loads

    def noted(data: bytes) -> Any:
        nonlocal longest
        longest = max(longest, len(data))
        return loads(data)

    document = {"metadata": {"snapshots": [{"snapshot-id": n, "summary": {"operation": "append"}} for n in range(1_000)]}}
    data = orjson.dumps(document)
    monkeypatch.setattr(json_in_pieces, "_PIECE_BYTES", 1_000)
    monkeypatch.setattr(orjson, "loads", noted)
    assert document == loads_in_pieces(data, ("metadata", "snapshots"))
    assert longest < 1_200


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":{"snapshots":[{"b":1},{"b":2}]},"snapshots":[{"c":1},{"c":2}]}',
        b'{"snapshots":[{"b":1},{"b":2}],"snapshots":[{"c":1},{"c":2}]}',
        b'{"text":"\\"snapshots\\":[{","snapshots":[{"c":1},{"c":2}]}',
        b'{"snapshots":[{"b":1},{"b":2},3]}',
        b'{"snapshots":[{"b":[{"c":1},{"c":2}]},{"b":[{"c":"}]"},{"c":2}]}]}',
        b'[{"snapshots":[{"b":1},{"b":2}]}]',
    ],
)
def test_lists_elsewhere_and_of_other_things(data: bytes) -> None:
    """A list of that name at another path, or with elements other than objects, is parsed as usual."""
    assert orjson.loads(data) == loads_in_pieces(data, ("snapshots",))


@pytest.mark.parametrize("data", [b'{"snapshots":[{"b":1},{"b":2}]', b'{"snapshots":[{"b":1},{"b":2}}', b'{"snapshots":[{"b":1},{"b":}]}'])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    """As in one call."""
    with pytest.raises(orjson.JSONDecodeError):
        loads_in_pieces(data, ("snapshots",))


@given(members, st.lists(values, max_size=20), members)
def test_written_as_it_is_at_once(before: dict[str, Any], elements: list[Any], after: dict[str, Any]) -> None:
    """With a long list at the path, or without one."""
    document = {**before, "metadata": {**after, "snapshots": elements, **before}, **after}
    pieces = [*dumps_in_pieces(document, ("metadata", "snapshots"))]
    assert orjson.dumps(document) == b"".join(pieces)
    written = document.get("metadata")
    long = written.get("snapshots") if isinstance(written, dict) else None
    assert (isinstance(long, list) and len(long) > json_in_pieces.ELEMENTS_WHOLE_MAX) == (len(pieces) > 1)
