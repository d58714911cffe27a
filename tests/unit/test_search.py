"""How the search compares names, and which events change what it finds."""

import zlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uuid_utils.compat import uuid7

from icecore.domain.events import (
    Event,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceExpired,
    NamespaceMoved,
    NamespaceUndropped,
    TableCreated,
    TableDropped,
    TableExpired,
    TablePurged,
    TableRenamed,
    TableUndropped,
    TableUnregistered,
    ViewDropped,
    ViewExpired,
    ViewRenamed,
    topics,
)
from icecore.domain.read_models.search import SEARCHED, SearchName, _terms, distance, name_terms, search_names, search_terms, trigrams
from icecore.domain.recorded import RecordedEvent

WAREHOUSE, OTHER = UUID(int=1), UUID(int=2)
NOT_SEARCHED = {
    "namespace.properties-changed", "namespace.protection-changed", "namespace.undropped",
    "table.overwritten", "table.committed", "table.protection-changed", "table.undropped", "table.purged", "table.purge-cancelled",
    "view.committed", "view.protection-changed", "view.undropped",
}  # fmt: skip


def recorded(event: Event, stream_id: UUID, state: bytes | None = None) -> RecordedEvent:
    at = datetime(2026, 11, 26, tzinfo=UTC)
    data = event.encode() if state is None else state
    fields: Any = [stream_id, 1, event.TOPIC, data, 1, uuid7(), uuid7(), at, "a", UUID(int=0), WAREHOUSE]
    return RecordedEvent(*fields, "r", None, None, None, None, b"")  # type: ignore[call-arg]


def test_every_event_is_searched_or_named_as_one_that_is_not() -> None:
    """A new kind of event needs a decision here."""
    of_names = {topic.rpartition(".")[0] for topic in topics() if topic.startswith(("namespace.", "table.", "view."))}
    assert of_names == SEARCHED | NOT_SEARCHED
    assert set() == SEARCHED & NOT_SEARCHED


# From the manual of pg_trgm, and from its `show_trgm`.
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cat", {"  c", " ca", "at ", "cat"}),
        ("foo|bar", {"  f", " fo", "foo", "oo ", "  b", " ba", "bar", "ar "}),
        ("Word", {"  w", " wo", "ord", "wor", "rd "}),
        ("a", {"  a", " a "}),
        ("Straße", {"  s", " st", "str", "tra", "ras", "ass", "sse", "se "}),
        ("._-", set()),
        ("", set()),
    ],
)
def test_trigrams_are_those_of_pg_trgm(text: str, found: set[str]) -> None:
    assert found == trigrams(text)


def test_the_distance_is_that_of_pg_trgm_to_the_name_or_the_path() -> None:
    """`'word' <-> 'two words'` is 0.6363636 in its manual."""
    assert pytest.approx(0.6363636) == distance("word", ["two words"])
    assert distance("custmers", ["customers"]) < distance("cust", ["customers"]) < 1
    assert 1 == distance("orders", ["customers"]), "only two of seven trigrams"
    assert 0 == distance("ORDERS", ["sales", "orders"]) == distance("sales.orders", ["sales", "orders"])
    assert distance("sales.orders", ["sales", "order"]) < distance("sales.orders", ["sails", "orders"]) < 1
    assert 1 == distance("x", ["y"]) == distance("", ["y"]) == distance("--", ["--"])


@given(st.text(max_size=12), st.lists(st.text(max_size=12), min_size=1, max_size=3))
def test_a_distance_is_between_0_and_1(text: str, path: list[str]) -> None:
    assert 0 <= distance(text, path) <= 1
    assert (0 if trigrams(path[-1]) else 1) == distance(path[-1], path)


@given(st.text(min_size=1, max_size=20), st.lists(st.text(min_size=1, max_size=8), max_size=3))
@example("a.b", ["n"])
def test_a_search_for_a_name_or_path_has_the_term_of_the_whole_name(name: str, levels: list[str]) -> None:
    """Which only the same name has, in any case."""
    terms = set(name_terms(WAREHOUSE, name))
    (whole,) = terms - set(_terms(WAREHOUSE, trigrams(name), []))
    assert whole in search_terms(WAREHOUSE, ".".join([*levels, name]))
    assert terms <= set(search_terms(WAREHOUSE, name))
    assert set() == terms & set(name_terms(OTHER, name)), "terms of another warehouse"
    assert all(-(2**63) <= term < 2**63 for term in terms)


def test_the_last_name_counts_until_the_object_is_gone_for_good() -> None:
    """A soft-deleted object keeps its name, for its undrop."""
    one, namespace = uuid7(), uuid7()
    created = NamespaceCreated(WAREHOUSE, "N", "n", "k", {})
    assert {one: SearchName(WAREHOUSE, "namespace", "N")} == search_names([recorded(created, one)])
    moved = recorded(NamespaceMoved(WAREHOUSE, "M", "m"), one)
    soft, hard = recorded(NamespaceDropped(5, None), one), recorded(NamespaceDropped(None, None), one)
    assert {one: SearchName(WAREHOUSE, "namespace", "M")} == search_names([recorded(created, one), moved, soft])
    assert {one: None} == search_names([moved, hard])
    assert {one: None} == search_names([moved, soft, recorded(NamespaceExpired(), one)])
    assert {} == search_names([recorded(NamespaceUndropped(), one), soft])
    assert {one: SearchName(WAREHOUSE, "table", "t")} == search_names([recorded(TableRenamed(namespace, "t", "t"), one)])
    assert {one: SearchName(WAREHOUSE, "view", "t")} == search_names([recorded(ViewRenamed(namespace, "t", "t"), one)])
    for gone in (TableDropped(False, None, None), TableExpired(), TableUnregistered(), ViewDropped(None), ViewExpired()):
        assert {one: None} == search_names([recorded(gone, one)]), gone
    for kept in (TableDropped(False, None, 5), ViewDropped(5), TableUndropped(), TablePurged(0, [], None)):
        assert {} == search_names([recorded(kept, one)]), kept


def test_a_large_state_is_inflated() -> None:
    event = TableCreated(uuid7(), "wide", "wide", "k", "m", {}, False, None)
    assert [SearchName(WAREHOUSE, "table", "wide")] == [*search_names([recorded(event, uuid7(), zlib.compress(event.encode()))]).values()]
