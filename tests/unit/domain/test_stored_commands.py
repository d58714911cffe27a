"""Stored commands decode to the command that was encoded, and nothing else is decoded."""

import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icecore.domain import commands
from icecore.domain.commands import CommitTable, CommitTransaction, DropTable, RegisterTable, RegisterView
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.stored_commands import _FORMS, WAITING_COMMANDS, UnreadableCommandError, decode, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
OBJECTS = st.lists(OBJECT, max_size=3)
NAMESPACE = st.builds(NamespaceIdentifier, st.lists(TEXT, min_size=1, max_size=3).map(tuple))
TABULAR = st.builds(TabularIdentifier, NAMESPACE, TEXT)
COMMIT = st.builds(CommitTable, TABULAR, OBJECTS, OBJECTS)
# By field name; equal names have the same meaning in every command.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "namespace": NAMESPACE,
    "name": TEXT,
    "location": st.none() | TEXT,
    "schema": OBJECT,
    "partition_spec": st.none() | OBJECT,
    "write_order": st.none() | OBJECT,
    "view_version": OBJECT,
    "properties": st.dictionaries(TEXT, TEXT, max_size=3),
    "stage_create": st.booleans(),
    "purge_requested": st.none() | st.booleans(),
    "force": st.booleans(),
    "recursive": st.booleans(),
    "purge": st.none() | st.booleans(),
    "namespace_id": st.uuids(),
    "table_id": st.uuids(),
    "view_id": st.uuids(),
    "protected": st.booleans(),
    "table": TABULAR,
    "view": TABULAR,
    "source": TABULAR,
    "destination": TABULAR,
    "requirements": OBJECTS,
    "removals": st.lists(TEXT, max_size=3),
    "changes": st.lists(COMMIT, min_size=1, max_size=3).map(tuple),
}
BY_COMMAND = {
    (commands.UpdateNamespaceProperties, "updates"): FIELDS["properties"],
    (commands.MoveNamespace, "destination"): FIELDS["namespace"],
}
ORDERS = TabularIdentifier(NamespaceIdentifier(("a", "b.c")), "t")


def waiting(command: type[Any]) -> st.SearchStrategy[Any]:
    """Any command of the class."""
    names = [each.name for each in dataclasses.fields(command)]
    return st.builds(command, **{name: BY_COMMAND.get((command, name), FIELDS.get(name, OBJECTS)) for name in names})


WAITING = st.one_of(*map(waiting, sorted(WAITING_COMMANDS, key=lambda each: each.__name__)))


def as_stored(command: Any) -> tuple[str, Any]:
    """Through JSON, as in the log."""
    stored = encode(command)
    assert stored is not None
    assert len(orjson.dumps(stored.fields)) == stored.bytes_count
    return stored.operation, orjson.loads(orjson.dumps(stored.fields))


@pytest.mark.parametrize("command", sorted(WAITING_COMMANDS, key=lambda each: each.__name__), ids=lambda each: each.__name__)
def test_every_command_that_can_wait_is_read_again_as_it_was(command: type[Any]) -> None:
    """decode(encode(c)) == c, through the bytes of the log."""

    @settings(max_examples=50)
    @given(waiting(command))
    def check(asked: Any) -> None:
        assert asked == decode(*as_stored(asked))

    check()


@pytest.mark.parametrize("command", sorted(WAITING_COMMANDS, key=lambda each: each.__name__), ids=lambda each: each.__name__)
def test_every_field_is_stored_under_its_name(command: type[Any]) -> None:
    """Fails if a new field is not stored."""
    assert [each.name.replace("_", "-") for each in dataclasses.fields(command)] == [*_FORMS[command][1]]


def test_all_commands_but_registrations_can_wait() -> None:
    """A new command needs a stored form or an exception here. Registrations refer to files, which engines delete on a refusal; an undrop
    waits for nobody, because what it is about expires.
    """
    every = {each for each in vars(commands).values() if dataclasses.is_dataclass(each) and each.__module__ == commands.__name__}
    assert {
        RegisterTable,
        RegisterView,
        commands.UndropNamespace,
        commands.UndropTabulars,
        commands.UndropTarget,
    } == every - WAITING_COMMANDS
    assert encode(RegisterTable(ORDERS.namespace, "t", "s3://b/m.json", False)) is None


def test_the_stored_form_is_the_commands_own_fields() -> None:
    """Names by levels, without paths, queries or bodies."""
    commit = {"table": {"namespace": ["a", "b.c"], "name": "t"}, "requirements": [{"type": "assert-create"}], "updates": []}
    assert ("updateTable", commit) == as_stored(CommitTable(ORDERS, [{"type": "assert-create"}], []))
    assert ("commitTransaction", {"changes": [commit]}) == as_stored(
        CommitTransaction((CommitTable(ORDERS, [{"type": "assert-create"}], []),))
    )
    drop = {"table": {"namespace": ["a", "b.c"], "name": "t"}, "purge-requested": True}
    assert ("dropTable", drop) == as_stored(DropTable(ORDERS, True))
    assert ("dropTable", {**drop, "force": True}) == as_stored(DropTable(ORDERS, True, force=True))


def test_proposals_from_before_force_are_read() -> None:
    """They lack it, and their key is that of a change without it."""
    table = {"namespace": ["a", "b.c"], "name": "t"}
    assert DropTable(ORDERS, False) == decode("dropTable", {"table": table, "purge-requested": False})
    assert commands.UnregisterTable(ORDERS) == decode("unregisterTable", {"table": table})
    assert commands.DropView(ORDERS) == decode("dropView", {"view": table})
    assert commands.DropNamespace(ORDERS.namespace) == decode("dropNamespace", {"namespace": ["a", "b.c"]})


def test_a_command_that_was_stored_before_it_had_force_is_read() -> None:
    """A drop without force is stored as before, so its proposals keep their keys."""
    for command in (DropTable(ORDERS, True), commands.DropView(ORDERS)):
        operation, stored = as_stored(command)
        assert "force" not in stored
        assert command == decode(operation, stored)
        assert dataclasses.replace(command, force=True) == decode(operation, {**stored, "force": True})


@given(WAITING, WAITING)
def test_two_commands_share_a_key_where_they_are_the_same(one: Any, other: Any) -> None:
    """The key is a hash of the operation and the fields."""
    stored = [encode(each) for each in (one, other)]
    assert stored[0] is not None
    assert stored[1] is not None
    written = [orjson.dumps([each.operation, each.fields], option=orjson.OPT_SORT_KEYS) for each in stored if each is not None]
    assert (written[0] == written[1]) == (stored[0].key == stored[1].key)


def test_the_order_of_members_makes_no_other_change() -> None:
    """The same change with members in another order has the same proposal."""
    properties = [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}]
    keys = {stored.key for each in properties if (stored := encode(commands.CreateNamespace(ORDERS.namespace, each))) is not None}
    assert 1 == len(keys)


def test_renames_of_a_table_and_of_a_view_have_keys_of_their_own() -> None:
    """Their fields are the same."""
    keys = {stored.key for make in (commands.RenameTable, commands.RenameView) if (stored := encode(make(ORDERS, ORDERS))) is not None}
    assert 2 == len(keys)


TABLE = {"namespace": ["a"], "name": "t"}


@pytest.mark.parametrize(
    ("operation", "stored", "message"),
    [
        ("registerTable", {}, "a change by registerTable cannot wait"),
        ("dropTable", {"table": TABLE}, "DropTable must be stored with the members table, purge-requested"),
        ("dropTable", {"table": TABLE, "purge-requested": True, "more": 1}, "DropTable must be stored with the members"),
        ("dropTable", [], "DropTable must be stored with the members"),
        ("dropTable", {"table": TABLE, "purge-requested": 1}, "purge-requested must be true or false"),
        ("dropTable", {"table": TABLE, "purge-requested": True, "force": 1}, "force must be true or false"),
        ("setTableProtection", {"table-id": "t", "protected": True}, "table-id must be a UUID"),
        ("dropTable", {"table": TABLE, "purge-requested": True, "force": None}, "force must be true or false"),
        ("dropTable", {"purge-requested": True, "force": True}, "DropTable must be stored with the members"),
        ("dropView", {"view": ["a", "t"]}, "view must be an object"),
        ("dropView", {"view": {"namespace": ["a"]}}, "view must have namespace and name"),
        ("dropView", {"view": {**TABLE, "more": 1}}, "view must have namespace and name"),
        ("dropView", {"view": {"namespace": [], "name": "t"}}, "view must have at least one level"),
        ("dropView", {"view": {"namespace": "a", "name": "t"}}, "view must be a list"),
        ("dropView", {"view": {"namespace": ["a"], "name": 1}}, "view must be a string"),
        ("createNamespace", {"namespace": ["a", 1], "properties": {}}, "namespace must be a string"),
        ("createNamespace", {"namespace": ["a"], "properties": {"k": 1}}, "properties must be a string"),
        ("createNamespace", {"namespace": ["a"], "properties": []}, "properties must be an object"),
        ("updateTable", {"table": TABLE, "requirements": {}, "updates": []}, "requirements must be a list"),
        ("updateTable", {"table": TABLE, "requirements": [], "updates": ["x"]}, "updates must be an object"),
        ("commitTransaction", {"changes": [{"table": TABLE, "updates": []}]}, "CommitTable must be stored with the members"),
    ],
)
def test_nothing_but_what_is_written_is_read(operation: str, stored: Any, message: str) -> None:
    """A form of another program is refused."""
    with pytest.raises(UnreadableCommandError, match=message):
        decode(operation, stored)
