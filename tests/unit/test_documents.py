"""Documents as heads and parts: deltas by identity, folds, and bytes joined without parsing."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from icecore.domain.documents import (
    TABLE_KINDS,
    VIEW_KINDS,
    Delta,
    Part,
    PartsDelta,
    apply_delta,
    assemble,
    difference,
    document_pieces,
    joined_bodies,
    part_from_body,
    split,
    table_head,
    table_head_value,
    table_size,
)

Json = dict[str, Any]


def document(version: int = 2, **members: Any) -> Json:
    """Table metadata in the canonical inner form."""
    return {
        "format-version": version,
        "table-uuid": "u",
        "location": "file:///t",
        "last-sequence-number": 0,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [{"name": "p"}]}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"a": "1"},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
        "encryption-keys": [],
        "next-row-id": 0,
    } | members


def written(value: Json) -> Json:
    parts = split(value, TABLE_KINDS)
    joined: Json = orjson.loads(b"".join(document_pieces(table_head(parts), joined_bodies(parts), TABLE_KINDS)))
    return joined


def test_the_first_document_numbers_its_parts_in_order() -> None:
    """From 0, kind by kind."""
    parts = split(document(), TABLE_KINDS)
    assert (0, 1, 2) == tuple(parts.parts[kind][0].ordinal for kind in ("schemas", "partition-specs", "sort-orders"))
    assert 3 == parts.next_ordinal


def test_a_document_that_is_the_same_has_no_delta() -> None:
    """Shared members are not compared."""
    before = split(document(), TABLE_KINDS)
    assert Delta() == difference(before, {**before.value})


def test_what_is_appended_is_one_part() -> None:
    """The previous elements are the same objects."""
    before = split(document(snapshots=[{"snapshot-id": 1}]), TABLE_KINDS)
    after = {**before.value, "snapshots": [*before.value["snapshots"], {"snapshot-id": 2}]}
    assert {"snapshots": PartsDelta((Part(4, {"snapshot-id": 2}),), ())} == dict(difference(before, after).parts)


def test_what_is_removed_is_named_by_its_ordinal() -> None:
    """The ordinal is not used again."""
    before = split(document(snapshots=[{"snapshot-id": 1}, {"snapshot-id": 2}]), TABLE_KINDS)
    after = {**before.value, "snapshots": before.value["snapshots"][1:]}
    delta = difference(before, after)
    assert {"snapshots": PartsDelta((), (3,))} == dict(delta.parts)
    again = apply_delta(before, delta)
    third = {**again.value, "snapshots": [*again.value["snapshots"], {"snapshot-id": 1}]}
    assert (5,) == tuple(part.ordinal for part in difference(again, third).parts["snapshots"].added)


def test_an_element_that_moves_is_taken_out_and_added_anew() -> None:
    """Ordinals define the order."""
    first, second = {"snapshot-id": 1}, {"snapshot-id": 2}
    before = split(document(snapshots=[first, second]), TABLE_KINDS)
    delta = difference(before, {**before.value, "snapshots": [second, first]})
    assert [second, first] == apply_delta(before, delta).value["snapshots"]
    assert (3,) == delta.parts["snapshots"].removed


def test_a_ref_that_points_elsewhere_is_another_part() -> None:
    """A ref's part contains its name."""
    before = split(document(refs={"main": {"snapshot-id": 1}, "tag": {"snapshot-id": 1}}), TABLE_KINDS)
    after = {**before.value, "refs": {**before.value["refs"], "main": {"snapshot-id": 2}}}
    delta = difference(before, after)
    assert ((Part(5, {"snapshot-id": 2}, "main"),), (3,)) == (delta.parts["refs"].added, delta.parts["refs"].removed)
    assert after["refs"] == apply_delta(before, delta).value["refs"]


def test_heads_and_properties_say_what_was_set_and_removed() -> None:
    """Including unknown members."""
    before = split(document(unknown=1, other=2), TABLE_KINDS)
    after = {key: value for key, value in before.value.items() if key != "unknown"} | {"other": 3, "properties": {"b": "2"}}
    delta = difference(before, after)
    assert ({"other": 3}, ("unknown",)) == (delta.members_set, delta.members_removed)
    assert ({"b": "2"}, ("a",)) == (dict(delta.properties_set), delta.properties_removed)
    assert after == apply_delta(before, delta).value


def test_a_delta_survives_its_json() -> None:
    """As in an event."""
    parts = {"refs": PartsDelta((Part(7, {"s": 1}, "main"),), (3,)), "schemas": PartsDelta((), (1,))}
    delta = Delta({"x": 1}, ("y",), {"a": "b"}, ("c",), parts)
    assert delta == Delta.from_json(orjson.loads(orjson.dumps(delta.to_json())))


def test_the_bytes_of_a_table_are_counted_without_joining_them() -> None:
    """The same whether or not they are joined already. Only the kinds' names, fewer than 20 bytes each, are not counted."""
    before = split(document(snapshots=[{"snapshot-id": 1}] * 200, **{"metadata-log": [{"metadata-file": "x" * 1_000}]}), TABLE_KINDS)
    not_joined = table_size(before)
    assert {} == before._joined
    bodies = joined_bodies(before)
    whole = sum(map(len, document_pieces(table_head(before), bodies, TABLE_KINDS)))
    assert abs(whole - not_joined) < 20 * len(TABLE_KINDS)
    assert abs(table_size(before) - not_joined) <= len(TABLE_KINDS)
    added = apply_delta(before, Delta(parts={"snapshots": PartsDelta((Part(before.next_ordinal, {"snapshot-id": 2}),), ())}))
    assert table_size(before) + len(b',{"snapshot-id":2}') == table_size(added)
    assert not_joined - 1_000 > table_size(before, without="metadata-log")


def test_v1_is_written_with_what_v1_readers_look_for() -> None:
    """The current schema and the default spec's fields are repeated; -1 for no snapshot; no sequence number, no row id."""
    found = written(document(1))
    assert {"schema-id": 0, "fields": []} == found["schema"]
    assert [{"name": "p"}] == found["partition-spec"]
    assert -1 == found["current-snapshot-id"]
    assert not {"last-sequence-number", "next-row-id", "encryption-keys"} & found.keys()


def test_v2_is_written_with_sequence_numbers_and_v3_with_row_ids() -> None:
    """From v3 on, no snapshot is null."""
    assert (0, -1) == (written(document(2))["last-sequence-number"], written(document(2))["current-snapshot-id"])
    assert (0, None) == (written(document(3))["next-row-id"], written(document(3))["current-snapshot-id"])
    assert "next-row-id" not in written(document(2))


def test_encryption_keys_are_written_where_there_are_any() -> None:
    """Empty lists of the other kinds are written."""
    keys = [{"key-id": "k"}]
    assert keys == written(document(3, **{"encryption-keys": keys}))["encryption-keys"]
    assert [] == written(document(3))["statistics"]


def test_a_head_comes_back_from_its_bytes() -> None:
    """In every format version."""
    for version in (1, 2, 3):
        for current in (None, 5):
            value = document(version, **{"current-snapshot-id": current}, unknown={"a": 1})
            parts = split(value, TABLE_KINDS)
            head = {key: member for key, member in value.items() if key not in parts.parts}
            assert head == table_head_value(table_head(parts))


def test_equal_heads_are_equal_bytes_whatever_their_history() -> None:
    """The order of the members does not matter."""
    value = document(2, zeta=1, alpha=2)
    assert table_head(split(value, TABLE_KINDS)) == table_head(split(dict(reversed(value.items())), TABLE_KINDS))


def test_a_part_comes_back_from_its_body() -> None:
    """With its name, if it has one. Large integers are exact."""
    for kind, part in (("snapshots", Part(3, {"snapshot-id": 2**63 - 1})), ("refs", Part(4, {"snapshot-id": 1}, 'a"b'))):
        assert part == part_from_body(kind, part.ordinal, part.body)


def test_a_part_names_the_snapshot_it_is_about() -> None:
    """Used by loads of referenced snapshots. Elements that are not objects have none."""
    assert 7 == Part(0, {"snapshot-id": 7, "schema-id": 1}).snapshot_id
    assert None is Part(0, {"schema-id": 1}).snapshot_id
    assert None is Part(0, "text").snapshot_id


def test_a_views_document_is_split_and_folded_alike() -> None:
    """Its kinds are versions, schemas and the version log."""
    view = {"view-uuid": "u", "properties": {}, "schemas": [{"schema-id": 0}], "versions": [{"version-id": 1}], "version-log": []}
    before = split(view, VIEW_KINDS)
    after = {**view, "versions": [*view["versions"], {"version-id": 2}]}  # type: ignore[misc]
    assert after == apply_delta(before, difference(before, after)).value


ELEMENTS = st.builds(lambda n: {"n": n}, st.integers(0, 5))


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Documents, each made from the previous one and sharing unchanged parts: with removals, additions and reordering."""
    history = [document()]
    for _ in range(draw(st.integers(1, 6))):
        value = dict(history[-1])
        for kind in draw(st.lists(st.sampled_from(["snapshots", "schemas", "snapshot-log"]), max_size=3, unique=True)):
            kept = [element for element in value[kind] if draw(st.booleans())]
            if kind != "schemas":
                kept = draw(st.permutations(kept)) if draw(st.booleans()) else kept
            value[kind] = [*kept, *draw(st.lists(ELEMENTS, max_size=3))]
        refs = {name: ref for name, ref in value["refs"].items() if draw(st.booleans())}
        value["refs"] = refs | draw(st.dictionaries(st.sampled_from("abc"), ELEMENTS, max_size=2))
        value["properties"] = draw(st.dictionaries(st.sampled_from("abc"), st.text(max_size=3), max_size=3))
        if draw(st.booleans()):
            value["last-updated-ms"] = draw(st.integers(0, 5))
        history.append(value)
    return history


@given(histories())
def test_folding_the_deltas_gives_every_document_back(history: list[Json]) -> None:
    """Through JSON, with ascending ordinals that are never reused, and equal to the result of `assemble`."""
    state = split(history[0], TABLE_KINDS)
    used: dict[int, tuple[str, Any]] = {}
    for value in history[1:]:
        delta = Delta.from_json(orjson.loads(orjson.dumps(difference(state, value).to_json())))
        decided, before = apply_delta(state, difference(state, value)), state
        state = apply_delta(before, delta)
        assert value == state.value == decided.value
        for kind, members in state.parts.items():
            ordinals = [part.ordinal for part in members]
            assert sorted(set(ordinals)) == ordinals
            for part in members:
                assert (kind, part.value) == used.setdefault(part.ordinal, (kind, part.value))
        assert all(ordinal < state.next_ordinal for ordinal in used)
        head = {key: member for key, member in value.items() if key not in state.parts}
        assert value == assemble(head, state.parts, state.next_ordinal).value
        # The next document shares with this one what it shares with the decided state, as in a commit.
        state = decided
