"""Any sequence of commands on a table keeps its invariants, if the state is folded from the recorded events."""

from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from icecore.domain.claims import LocationClaim, NameClaim
from icecore.domain.documents import TABLE_KINDS, split
from icecore.domain.events import Event, decode
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.metadata.create import new_table_metadata
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
)

STREAM, WAREHOUSE = UUID(int=1), UUID(int=2)
NAMESPACES = {"a": UUID(int=3), "b": UUID(int=4)}
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
NOW = 1_800_000_000_000

PLACES = st.sampled_from(["t", "u", "v"])
PATHS = st.lists(st.sampled_from(["data", "metadata", "v"]), unique=True).map(lambda names: [key_of(name) for name in names])
NAMES = st.tuples(st.sampled_from([*NAMESPACES]), st.sampled_from(["Orders", "orders", "bills"]))
UPDATES = st.one_of(
    st.builds(lambda value: {"action": "set-properties", "updates": {"k": value}}, st.sampled_from(["1", "2"])),
    st.builds(lambda value: {"action": "set-properties", "updates": {"gc.enabled": value}}, st.sampled_from(["true", "false"])),
    st.just({"action": "remove-properties", "removals": ["k", "gc.enabled"]}),
    st.builds(lambda place: {"action": "set-location", "location": f"file:///w/{place}"}, PLACES),
    st.builds(
        lambda number: {"action": "add-schema", "schema": {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "doc": str(number)}]}},  # type: ignore[dict-item]
        st.integers(1, 3),
    ),
)
# The clock may be behind the previous update's.
CLOCKS = st.integers(-5_000, 5_000).map(lambda apart: NOW + apart)


def key_of(place: str) -> str:
    return f"local|file:///w/{place}/"


def document(place: str, now_ms: int, **properties: str) -> dict[str, Any]:
    return new_table_metadata(
        table_uuid="00000000-0000-0000-0000-000000000009",
        location=f"file:///w/{place}",
        schema=SCHEMA,
        partition_spec=None,
        write_order=None,
        properties=properties,
        now_ms=now_ms,
    )


def free(name: tuple[str, str]) -> FreeName:
    namespace, text = name
    return FreeName(NAMESPACES[namespace], text, text.lower())


def called(name: tuple[str, str]) -> TabularIdentifier:
    namespace, text = name
    return TabularIdentifier(NamespaceIdentifier((namespace,)), text)


class TableLife(RuleBasedStateMachine):
    """One stream. `places` and `name` -- the expected claims; `ordinals` -- all ordinals used so far."""

    state: TableState

    def __init__(self) -> None:
        super().__init__()
        self.files, self.places, self.ordinals = 0, set[str](), dict[int, bytes]()
        self.name: FreeName

    def record(self, event: Event, *, first: bool = False) -> None:
        """Encodes the event and folds it."""
        before = None if first else self.state
        version = 1 if before is None else before.version + 1
        self.state = evolve(before, STREAM, version, UUID(int=100 + version), WAREHOUSE, decode(event.TOPIC, event.encode()))

    def file(self, place: str) -> str:
        self.files += 1
        return f"file:///w/{place}/metadata/{self.files:05}-x.metadata.json"

    @initialize(name=NAMES, place=PLACES, paths=PATHS, registered=st.booleans(), keeps=st.booleans(), now_ms=CLOCKS)
    def begin(self, name: tuple[str, str], place: str, paths: list[str], registered: bool, keeps: bool, now_ms: int) -> None:
        self.name, self.places = free(name), {key_of(place), *paths}
        given = (self.name, document(place, now_ms, **{"gc.enabled": str(not keeps)}), self.file(place), key_of(place), paths)
        self.record(decide_register(*given) if registered else decide_create(*given, staged=False), first=True)

    @precondition(lambda self: self.state.status == "live")
    @rule(updates=st.lists(UPDATES, min_size=1, max_size=3), paths=PATHS, now_ms=CLOCKS)
    def commit(self, updates: list[dict[str, Any]], paths: list[str], now_ms: int) -> None:
        before = self.state
        change = decide_commit(before, ParsedCommit.parse([], updates), now_ms)
        if change is None:
            return
        place = change.metadata["location"].rpartition("/")[2]
        key = key_of(place) if change.location_changed else None
        self.places |= {key_of(place), *paths}
        self.record(change.event(self.file(place), key, paths or None))
        after = self.state.document.value
        assert change.metadata == after
        assert before.metadata_location == after["metadata-log"][-1]["metadata-file"]
        assert before.document.value["last-updated-ms"] <= after["last-updated-ms"]

    @precondition(lambda self: self.state.status == "live")
    @rule(place=PLACES, paths=PATHS, now_ms=CLOCKS)
    def register_over(self, place: str, paths: list[str], now_ms: int) -> None:
        self.places |= {key_of(place), *paths}
        self.record(decide_register(None, document(place, now_ms), self.file(place), key_of(place), paths))

    @precondition(lambda self: self.state.status == "live")
    @rule(name=NAMES)
    def rename(self, name: tuple[str, str]) -> None:
        to = free(name)
        own = (to.namespace_id, to.name_key) == (self.state.namespace_id, self.state.name_key)
        found = ResolvedName(to.namespace_id, STREAM if own else None, "table" if own else None, "file:///w/n")
        event = decide_rename(self.state, found, called(name), called(name), to.name_key)
        assert (event is None) == (to == self.name)
        self.name = to
        if event is not None:
            self.record(event)

    @precondition(lambda self: self.state.status == "live")
    @rule(purge_requested=st.booleans())
    def drop(self, purge_requested: bool) -> None:
        expected = "purging" if purge_requested and not keeps_its_files(self.state) else "dropped"
        self.record(decide_drop(self.state, purge_requested=purge_requested))
        assert expected == self.state.status

    @precondition(lambda self: self.state.status == "live")
    @rule()
    def unregister(self) -> None:
        self.record(decide_unregister(self.state))
        assert self.state.status == "dropped"

    @rule(left=st.lists(st.just("file:///elsewhere"), max_size=1))
    def purge(self, left: list[str]) -> None:
        event = decide_purge(self.state, 7, left, len(left))
        assert (event is None) == (self.state.status != "purging")
        if event is not None:
            self.record(event)
            assert self.state.status == "purged"

    @invariant()
    def its_name_is_its_own_while_it_lives(self) -> None:
        name = {NameClaim("tabular", self.name.namespace_id, self.name.name_key, STREAM)} if self.state.status == "live" else set()
        assert name == {claim for claim in claims(self.state) if isinstance(claim, NameClaim)}
        assert (self.name.namespace_id, self.name.name) == (self.state.namespace_id, self.state.name)

    @invariant()
    def its_places_are_its_own_until_its_files_are_gone(self) -> None:
        places = {LocationClaim(key, STREAM) for key in self.places} if self.state.status in ("live", "purging") else set()
        assert places == {claim for claim in claims(self.state) if isinstance(claim, LocationClaim)}
        assert len(self.state.location_keys) == len({*self.state.location_keys})

    @invariant()
    def no_ordinal_stands_for_two_parts(self) -> None:
        parts = [part for members in self.state.document.parts.values() for part in members]
        assert len(parts) == len({part.ordinal for part in parts})
        for part in parts:
            assert part.ordinal < self.state.document.next_ordinal
            assert part.body == self.ordinals.setdefault(part.ordinal, part.body)

    @invariant()
    def its_parts_are_those_of_its_document(self) -> None:
        whole = split(self.state.document.value, TABLE_KINDS)
        for kind, members in whole.parts.items():
            assert [part.body for part in members] == [part.body for part in self.state.document.parts[kind]], kind


def test_any_life_keeps_the_invariants() -> None:
    """A table is created or registered, changed, moved, overwritten, renamed, and dropped in each way."""
    run_state_machine_as_test(TableLife, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))
