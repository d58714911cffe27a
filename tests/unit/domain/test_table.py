"""Table, given-when-then: decisions of commits, effects of events, and claims."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.claims import LocationClaim, NameClaim
from icecore.domain.documents import TABLE_KINDS, document_pieces, joined_bodies, split, table_head
from icecore.domain.errors import AlreadyExists, BadRequest, CommitFailed
from icecore.domain.events import (
    Event,
    NamespaceDropped,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableOverwritten,
    TablePurged,
    TableRegistered,
    TableRenamed,
    TableUnregistered,
)
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.metadata.create import new_table_metadata
from icecore.domain.metadata.updates import apply_updates
from icecore.domain.names import FreeName, ResolvedName
from icecore.domain.table import (
    ParsedCommit,
    TableState,
    claims,
    decide_commit,
    decide_create,
    decide_drop,
    decide_purge,
    decide_register,
    decide_rename,
    decide_unregister,
    evolve,
    keeps_its_files,
    may_have_lost_file,
)

STREAM, WAREHOUSE, NAMESPACE, OTHER = (UUID(int=n) for n in (1, 2, 3, 4))
SALES_ORDERS = TabularIdentifier(NamespaceIdentifier(("Sales",)), "Orders")
FREE = FreeName(NAMESPACE, "Orders", "orders")
LOCATION = "file:///w/t"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
NOW = 1_800_000_000_000


def metadata(location: str = LOCATION, **properties: str) -> dict[str, Any]:
    return new_table_metadata(
        table_uuid="00000000-0000-0000-0000-000000000009",
        location=location,
        schema=SCHEMA,
        partition_spec=None,
        write_order=None,
        properties=properties,
        now_ms=NOW,
    )


CREATED = TableCreated(
    NAMESPACE, "Orders", "orders", "local|file:///w/t/", f"{LOCATION}/metadata/00000-a.metadata.json", metadata(k="1"), False
)


def folded(*events: Event) -> TableState:
    """The state after `events`, each under an event id that is its version."""
    state: TableState | None = None
    for version, event in enumerate(events, start=1):
        state = evolve(state, STREAM, version, UUID(int=100 + version), WAREHOUSE, event)
    assert state is not None
    return state


def committed(state: TableState, *updates: dict[str, Any], file: str = "00001-b", key: str | None = None) -> TableCommitted:
    """The event of a commit of `updates`."""
    change = decide_commit(state, ParsedCommit.parse([], updates), NOW + 1)
    assert change is not None
    file = f"{change.metadata['location']}/metadata/{file}.metadata.json"
    return change.event(file, key, None)


def written(state: TableState) -> bytes:
    return b"".join(document_pieces(table_head(state.document), joined_bodies(state.document), TABLE_KINDS))


SET = {"action": "set-properties", "updates": {"k": "2"}}


@pytest.mark.parametrize("registered", [False, True])
def test_a_table_begins_with_its_first_document(registered: bool) -> None:
    """Given nothing, when it is created or registered, then it exists with its location and document."""
    event: Event = CREATED
    if registered:
        event = TableRegistered(NAMESPACE, "Orders", "orders", CREATED.location_key, CREATED.metadata_location, CREATED.metadata)
    expected = TableState(
        STREAM,
        1,
        UUID(int=101),
        WAREHOUSE,
        NAMESPACE,
        "Orders",
        "orders",
        "live",
        CREATED.metadata_location,
        ("local|file:///w/t/",),
        split(CREATED.metadata, TABLE_KINDS),
    )
    assert expected == folded(event)


def test_a_commit_is_folded_from_its_delta() -> None:
    """Given a table, when a commit is folded, then its document is what the updates made, byte for byte."""
    before = folded(CREATED)
    event = committed(before, SET)
    after = folded(CREATED, event)
    expected = apply_updates(before.document.value, [SET], now_ms=NOW + 1, previous_metadata_location=CREATED.metadata_location)
    assert expected == after.document.value
    assert written(replace(after, document=split(expected, TABLE_KINDS))) == written(after)
    assert (2, UUID(int=102), event.metadata_location, "live") == (after.version, after.event_id, after.metadata_location, after.status)


def test_a_fold_leaves_the_state_before_as_it_was() -> None:
    """Given a state, when a commit is folded on it, then the old state still writes the same bytes."""
    before = folded(CREATED)
    bytes_before = written(before)
    evolve(before, STREAM, 2, UUID(int=102), WAREHOUSE, committed(before, SET))
    assert bytes_before == written(before)


def test_an_event_decodes_to_the_same_fold() -> None:
    """Folding the decoded event results in the same state."""
    from icecore.domain.events import decode

    before = folded(CREATED)
    event = committed(before, SET, {"action": "set-location", "location": "file:///w/u"}, key="local|file:///w/u/")
    again = [decode(e.TOPIC, e.encode()) for e in (CREATED, event)]
    assert written(folded(CREATED, event)) == written(folded(*again))
    assert folded(CREATED, event).location_keys == folded(*again).location_keys


def test_a_move_adds_a_location_and_moving_back_adds_none() -> None:
    """Given a table, when it moves and moves back, then it claims both locations, each once."""
    first = folded(CREATED)
    there = committed(first, {"action": "set-location", "location": "file:///w/u"}, key="local|file:///w/u/")
    second = folded(CREATED, there)
    assert ("local|file:///w/t/", "local|file:///w/u/") == second.location_keys
    back = committed(second, {"action": "set-location", "location": LOCATION}, key="local|file:///w/t/")
    assert second.location_keys == folded(CREATED, there, back).location_keys


def test_an_overwrite_replaces_the_document_and_never_reuses_an_ordinal() -> None:
    """Given a table, when it is overwritten from another file, then every part is new and the name stays."""
    before = folded(CREATED)
    other = metadata("file:///w/other", k="9")
    after = folded(CREATED, TableOverwritten("local|file:///w/other/", "file:///w/other/metadata/v1.metadata.json", other))
    assert other == after.document.value
    assert ("Orders", "live", ("local|file:///w/t/", "local|file:///w/other/")) == (after.name, after.status, after.location_keys)
    first = before.document.next_ordinal
    old = {part.ordinal for parts in before.document.parts.values() for part in parts}
    new = {part.ordinal for parts in after.document.parts.values() for part in parts}
    assert max(old) < first
    assert set(range(first, first + len(new))) == new
    assert first + len(new) == after.document.next_ordinal


def test_a_rename_changes_the_name_alone() -> None:
    """Given a table, when it is renamed across namespaces, then all else stays."""
    expected = replace(folded(CREATED), version=2, event_id=UUID(int=102), namespace_id=OTHER, name="Bills", name_key="bills")
    assert expected == folded(CREATED, TableRenamed(OTHER, "Bills", "bills"))


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ([TableDropped(False)], "dropped"),
        ([TableDropped(True)], "purging"),
        ([TableDropped(True), TablePurged(3)], "purged"),
        ([TableUnregistered()], "dropped"),
    ],
)
def test_every_end_of_a_table_has_its_status(end: list[Event], status: str) -> None:
    """Given a table, when it is dropped, purged or unregistered, then its document stays known."""
    state = folded(CREATED, *end)
    assert status == state.status
    assert written(folded(CREATED)) == written(state)


NAME = NameClaim("tabular", NAMESPACE, "orders", STREAM)
PLACE = LocationClaim("local|file:///w/t/", STREAM)


@pytest.mark.parametrize(
    ("events", "held"),
    [
        ([], {NAME, PLACE}),
        ([TableRenamed(OTHER, "Bills", "bills")], {NameClaim("tabular", OTHER, "bills", STREAM), PLACE}),
        ([TableDropped(False)], set()),
        ([TableUnregistered()], set()),
        ([TableDropped(True)], {PLACE}),
        ([TableDropped(True), TablePurged(3)], set()),
    ],
    ids=["live", "renamed", "dropped", "unregistered", "purging", "purged"],
)
def test_claims_follow_the_life_of_a_table(events: list[Event], held: set[object]) -> None:
    """The name is free after any drop, the location once no more files will be deleted."""
    assert held == claims(folded(CREATED, *events))


def test_a_moved_table_claims_both_locations() -> None:
    """Until its drop is final."""
    move = committed(folded(CREATED), {"action": "set-location", "location": "file:///w/u"}, key="local|file:///w/u/")
    both = {PLACE, LocationClaim("local|file:///w/u/", STREAM)}
    assert {NAME, *both} == claims(folded(CREATED, move))
    assert both == claims(folded(CREATED, move, TableDropped(True)))


def test_an_event_of_something_else_is_no_event_of_a_table() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="NamespaceDropped"):
        folded(CREATED, NamespaceDropped())


def test_a_commit_without_effect_decides_nothing() -> None:
    """Nothing is written or recorded."""
    state = folded(CREATED)
    unchanging: list[dict[str, Any]] = [{"action": "set-location", "location": LOCATION}, {"action": "set-current-schema", "schema-id": 0}]
    assert decide_commit(state, ParsedCommit.parse([], unchanging), NOW + 1) is None


def test_a_requirement_is_checked_before_any_update() -> None:
    """Even if the update itself is invalid. Requirements and updates that cannot be parsed are refused first, as in Java."""
    wrong_uuid = [{"type": "assert-table-uuid", "uuid": "no"}]
    commit = ParsedCommit.parse(wrong_uuid, [{"action": "set-current-schema", "schema-id": 7}])
    with pytest.raises(CommitFailed, match="UUID does not match"):
        decide_commit(folded(CREATED), commit, NOW)
    with pytest.raises(BadRequest, match="reinvent"):
        ParsedCommit.parse(wrong_uuid, [{"action": "reinvent"}])


def test_time_never_goes_back() -> None:
    """Given a table written by a clock ahead of ours, when a commit comes, then last-updated-ms does not fall."""
    state = folded(CREATED)
    change = decide_commit(state, ParsedCommit.parse([], [SET]), NOW - 60_000)
    assert change is not None
    assert NOW == change.metadata["last-updated-ms"]


def test_a_commit_logs_the_file_it_follows() -> None:
    """The metadata log names the file of the state that the commit was decided on."""
    change = decide_commit(folded(CREATED), ParsedCommit.parse([], [SET]), NOW + 5)
    assert change is not None
    assert [{"metadata-file": CREATED.metadata_location, "timestamp-ms": NOW}] == change.metadata["metadata-log"]
    assert (["set-properties"], False) == (change.actions, change.location_changed)


def test_places_of_path_properties_are_held_with_the_location() -> None:
    """Given a table with locations outside its own, when it names others, then it claims all until the drop is final."""
    created = replace(CREATED, path_keys=["local|file:///w/data/"])
    before = folded(created)
    event = replace(committed(before, SET), path_keys=["local|file:///w/more/", "local|file:///w/data/"])
    places = {LocationClaim(f"local|file:///w/{place}/", STREAM) for place in ("t", "data", "more")}
    assert places == {claim for claim in claims(folded(created, event)) if isinstance(claim, LocationClaim)}
    assert places == claims(folded(created, event, TableDropped(True)))
    assert set() == claims(folded(created, event, TableDropped(True), TablePurged(1)))


def test_a_drop_that_keeps_the_files_is_final() -> None:
    """Given gc.enabled=false, when the table is dropped with its files, then no purge is pending and its location is free."""
    after = folded(CREATED, TableDropped(True, gc_enabled=False))
    assert ("dropped", set()) == (after.status, claims(after))


@pytest.mark.parametrize(("value", "keeps"), [(None, False), ("true", False), ("TRUE", False), ("false", True), ("no", True), ("", True)])
def test_gc_enabled_is_read_as_java_reads_it(value: str | None, keeps: bool) -> None:
    """Any value but `true`, in any case, keeps the files. Without the property they may be deleted."""
    properties = {} if value is None else {"gc.enabled": value}
    table = folded(replace(CREATED, metadata=metadata(**properties)))
    assert keeps == keeps_its_files(table)
    assert TableDropped(True, gc_enabled=False if keeps else None) == decide_drop(table, purge_requested=True)
    assert TableDropped(False) == decide_drop(table, purge_requested=False)


def test_a_rename_to_the_name_it_has_decides_nothing() -> None:
    """Another spelling is another name, and free to the table."""
    table, own = folded(CREATED), ResolvedName(NAMESPACE, STREAM, "table", "file:///w/n")
    assert decide_rename(table, own, SALES_ORDERS, SALES_ORDERS, "orders") is None
    upper = TabularIdentifier(SALES_ORDERS.namespace, "ORDERS")
    assert TableRenamed(NAMESPACE, "ORDERS", "orders") == decide_rename(table, own, SALES_ORDERS, upper, "orders")


def test_a_rename_takes_a_free_name_in_another_namespace() -> None:
    """The name is free in the other namespace. After the fold, the old name is free."""
    event = decide_rename(folded(CREATED), ResolvedName(OTHER, None, None, "file:///w/n"), SALES_ORDERS, SALES_ORDERS, "orders")
    assert TableRenamed(OTHER, "Orders", "orders") == event
    assert {NameClaim("tabular", OTHER, "orders", STREAM), PLACE} == claims(folded(CREATED, event))


def test_a_rename_over_something_else_is_refused() -> None:
    """As for all tables and views."""
    with pytest.raises(AlreadyExists, match="Cannot rename"):
        decide_rename(folded(CREATED), ResolvedName(NAMESPACE, OTHER, "view", "file:///w/n"), SALES_ORDERS, SALES_ORDERS, "orders")


PATHS = [[], None, ["local|file:///w/data/"]]


@pytest.mark.parametrize("paths", PATHS)
@pytest.mark.parametrize("staged", [False, True])
def test_a_created_table_is_what_was_decided(paths: list[str] | None, staged: bool) -> None:
    """The table has that name and claims its locations. Without other locations, path_keys is omitted."""
    event = decide_create(FREE, CREATED.metadata, CREATED.metadata_location, CREATED.location_key, paths, staged=staged)
    assert replace(CREATED, staged=staged, path_keys=paths or None) == event
    assert {NAME, PLACE, *(LocationClaim(path, STREAM) for path in paths or [])} == claims(folded(event))


@pytest.mark.parametrize("paths", PATHS)
def test_a_registered_table_is_what_was_decided(paths: list[str] | None) -> None:
    """As for a created table, from the location of the file."""
    event = decide_register(FREE, CREATED.metadata, CREATED.metadata_location, CREATED.location_key, paths)
    expected = TableRegistered(
        NAMESPACE, "Orders", "orders", CREATED.location_key, CREATED.metadata_location, CREATED.metadata, paths or None
    )
    assert expected == event
    assert {NAME, PLACE, *(LocationClaim(path, STREAM) for path in paths or [])} == claims(folded(event))


@pytest.mark.parametrize("paths", PATHS)
def test_a_registration_over_a_table_takes_no_name(paths: list[str] | None) -> None:
    """Without a name, the existing table is overwritten. It keeps its claims and gets the new ones."""
    other, file = metadata("file:///w/other"), "file:///w/other/metadata/v1.metadata.json"
    event = decide_register(None, other, file, "local|file:///w/other/", paths)
    assert TableOverwritten("local|file:///w/other/", file, other, paths or None) == event
    places = {LocationClaim(key, STREAM) for key in ("local|file:///w/other/", *(paths or []))}
    assert {NAME, PLACE, *places} == claims(folded(CREATED, event))


@pytest.mark.parametrize(
    ("file_key", "event_id", "lost"),
    [
        ("local|file:///w/t/metadata/v1.json/", 101, False),
        ("local|file:///w/t/metadata/v1.json/", 100, True),
        ("local|file:///w/elsewhere/v1.json/", 100, False),
        ("local|file:///w/data/v1.json/", 100, True),
    ],
    ids=["nothing since", "a commit since", "not its own", "in a place it names"],
)
def test_a_file_of_its_own_may_be_lost_to_a_commit(file_key: str, event_id: int, lost: bool) -> None:
    """A file that was read before the table's newest event is read again if the table deletes removed metadata files."""
    table = folded(replace(CREATED, path_keys=["local|file:///w/data/"]))
    assert lost == may_have_lost_file(table, file_key, UUID(int=event_id))


def test_only_a_live_table_ends() -> None:
    """A dropped table has no name by which a command could find it, so this is a bug."""
    assert TableUnregistered() == decide_unregister(folded(CREATED))
    for end in (TableDropped(False), TableDropped(True), TableUnregistered()):
        gone = folded(CREATED, end)
        with pytest.raises(AssertionError, match="a dropped table has no name"):
            decide_unregister(gone)
        with pytest.raises(AssertionError, match="a dropped table has no name"):
            decide_drop(gone, purge_requested=False)


@pytest.mark.parametrize(
    ("left", "count", "expected"),
    [([], 0, TablePurged(3)), (["a"], 1, TablePurged(3, ["a"], 1)), (["a", "b"], 7, TablePurged(3, ["a", "b"], 7))],
)
def test_a_purge_ends_with_what_became_of_the_files(left: list[str], count: int, expected: TablePurged) -> None:
    """Remaining files are named and counted, if there are any. After the fold, the locations are free."""
    event = decide_purge(folded(CREATED, TableDropped(True)), 3, left, count)
    assert expected == event
    assert ("purged", frozenset()) == ((state := folded(CREATED, TableDropped(True), event)).status, claims(state))


@pytest.mark.parametrize(
    "end", [[], [TableDropped(False)], [TableDropped(True, gc_enabled=False)], [TableUnregistered()], [TableDropped(True), TablePurged(1)]]
)
def test_only_a_purge_that_goes_on_ends(end: list[Event]) -> None:
    """Not a live table, one that keeps its files, or one that is purged already."""
    assert decide_purge(folded(CREATED, *end), 3, [], 0) is None


def test_a_commit_is_recorded_with_its_locations() -> None:
    """The delta, the updates' actions, and the locations."""
    change = decide_commit(folded(CREATED), ParsedCommit.parse([], [SET]), NOW + 5)
    assert change is not None
    file = f"{LOCATION}/metadata/00001-b.metadata.json"
    expected = TableCommitted(file, "local|file:///w/u/", change.delta.to_json(), ["set-properties"], ["local|file:///w/data/"])
    assert expected == change.event(file, "local|file:///w/u/", ["local|file:///w/data/"])
