"""Filters: types with wildcards, warehouses by name or id, namespaces with nested ones."""

import pytest

from icecore.domain.scope_filter import FilterError
from icecore.publishers.event_filter import EventFilter
from tests.unit.publishers.test_cloud_events import WAREHOUSE, dropped, recorded


def passes(event_filter: EventFilter, *namespace: str) -> bool:
    """Whether the filter matches the drop of `demo`'s table `é` in `namespace` (`a.b`)."""
    enriched = dropped()
    enriched.path = ("demo", *(namespace or ("a", "b")), "é")
    return event_filter.may_match(enriched.event) and event_filter.matches(enriched)


def test_an_empty_filter_lets_everything_through() -> None:
    assert passes(EventFilter.parse())


@pytest.mark.parametrize(
    "pattern", ["table.dropped", "table.*", "*.dropped", "io.icecore.table.dropped.v1", "table.dropped.v1", "io.icecore.table.*"]
)
def test_types_that_match(pattern: str) -> None:
    """With and without prefix, version and wildcard."""
    assert passes(EventFilter.parse(types=("view.created", pattern)))


@pytest.mark.parametrize("pattern", ["table.created", "view.*", "*.renamed"])
def test_types_that_do_not_match(pattern: str) -> None:
    """Existing types, but not this one's."""
    assert not passes(EventFilter.parse(types=(pattern,)))


def test_a_type_no_event_has_is_refused() -> None:
    """A typo must not silence a sink."""
    with pytest.raises(FilterError, match=r"types: 'tabel\.\*' matches none of .*table\.dropped"):
        EventFilter.parse(types=("tabel.*",))


@pytest.mark.parametrize("pattern", ["table.dropped?", "table.[d]ropped", "table.dropped*dropped", "*dropped*dropped"])
def test_only_the_star_stands_for_anything(pattern: str) -> None:
    with pytest.raises(FilterError, match="matches none"):
        EventFilter.parse(types=(pattern,))


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a", "*" + "a" * 64])
def test_a_pattern_that_would_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(FilterError, match="a pattern has at most 64 characters, of which at most 4 are"):
        EventFilter.parse(types=(pattern,))


@pytest.mark.parametrize(
    ("pattern", "expected"), [("*", True), ("t*e.d*d", True), ("*a*b*e.*", True), ("table.*opp*", True), ("t*e.c*d", False)]
)
def test_stars_stand_for_any_text(pattern: str, expected: bool) -> None:
    assert expected == passes(EventFilter.parse(types=(pattern,)))


@pytest.mark.parametrize(("warehouse", "expected"), [("demo", True), ("DEMO", True), (str(WAREHOUSE), True), ("other", False)])
def test_warehouses_by_name_or_id(warehouse: str, expected: bool) -> None:
    """Names are case-insensitive, as in requests."""
    assert expected == passes(EventFilter.parse(warehouses=(warehouse,)))


@pytest.mark.parametrize(
    ("wanted", "namespace", "expected"),
    [
        ("a", "a", True), ("a", "a.b", True), ("a.b", "a.b", True), ("A.B", "a.b", True), ("a.b", "a.b.c", True), ("a", "A.b", True),
        ("a", "ab", False), ("a", "ab.c", False), ("a.b", "a.bc", False), ("a.b", "a.bc.d", False), ("a.b", "a.b-c", False),
        ("a.b.é", "a.b", False), ("a.bc", "a.b", False), ("a.b", "a", False), ("b", "a.b", False), ("ab", "a.b", False), ("b", "a", False),
    ],
)  # fmt: skip
def test_a_namespace_stands_for_itself_and_all_below(wanted: str, namespace: str, expected: bool) -> None:
    """Whole levels, not text: `a` does not include `ab`."""
    assert expected == passes(EventFilter.parse(namespaces=(wanted,)), *namespace.split("."))


@pytest.mark.parametrize("what", ["namespaces", "warehouses"])
@pytest.mark.parametrize("given", ["", " ", "sales.*", "*", "x" * 256, f"a.{'x' * 256}"])
def test_a_name_that_nothing_can_have_is_refused(what: str, given: str) -> None:
    """Only types may be patterns. A pattern or an overlong name would match nothing, and silence a sink."""
    with pytest.raises(FilterError, match=what) as refused:
        EventFilter.parse(**{what: ("a", given)})
    assert what == refused.value.member


def test_all_parts_must_match() -> None:
    assert not passes(EventFilter.parse(types=("table.*",), warehouses=("demo",), namespaces=("x",)))


def test_a_filter_survives_the_row_of_a_replay() -> None:
    """It is equal after a round trip through JSON."""
    event_filter = EventFilter.parse(("table.*",), ("demo",), ("a.b",))
    assert event_filter == EventFilter.from_json(event_filter.to_json())


def test_type_alone_is_decided_before_names_are_read() -> None:
    """Events that cannot match need no query."""
    assert not EventFilter.parse(types=("table.*",)).may_match(recorded("view.created.v1"))


def test_a_name_that_case_folding_lengthens_is_read_as_it_was_written() -> None:
    """A replay whose filter is refused when it is read would block its sink permanently."""
    event_filter = EventFilter.parse(warehouses=("\u00df" * 200,), namespaces=("\ufb03" * 100,))
    assert event_filter == EventFilter.from_json(event_filter.to_json())
