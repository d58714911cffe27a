"""Protection of tables and views: what a protected object refuses, and which events keep the protection."""

import pytest

from icecore.domain import table, view
from icecore.domain.errors import TableProtected, ViewProtected
from icecore.domain.events import (
    TableDropped,
    TableOverwritten,
    TableProtectionChanged,
    TableRenamed,
    TableUnregistered,
    ViewDropped,
    ViewProtectionChanged,
    ViewRenamed,
)
from tests.unit.domain import test_table as tables
from tests.unit.domain import test_view as views


def test_a_protected_table_is_dropped_and_unregistered_only_with_force() -> None:
    protected = tables.folded(tables.CREATED, TableProtectionChanged(True))
    for purge_requested in (False, True):
        with pytest.raises(TableProtected, match=r"^Table is protected: Orders; "):
            table.decide_drop(protected, purge_requested=purge_requested)
        assert TableDropped(purge_requested) == table.decide_drop(protected, purge_requested=purge_requested, force=True)
    with pytest.raises(TableProtected, match=r"or unregister it with force$"):
        table.decide_unregister(protected)
    assert TableUnregistered() == table.decide_unregister(protected, force=True)


def test_a_table_whose_protection_is_removed_is_dropped() -> None:
    free = tables.folded(tables.CREATED, TableProtectionChanged(True), TableProtectionChanged(False))
    assert TableDropped(False) == table.decide_drop(free, purge_requested=False)
    assert TableUnregistered() == table.decide_unregister(free)


def test_commits_renames_and_overwrites_keep_the_protection_of_a_table() -> None:
    protected = tables.folded(tables.CREATED, TableProtectionChanged(True))
    overwritten = TableOverwritten(tables.CREATED.location_key, "file:///w/t/metadata/v2.metadata.json", tables.CREATED.metadata)
    for event in (tables.committed(protected, tables.SET), TableRenamed(tables.OTHER, "U", "u"), overwritten):
        assert tables.folded(tables.CREATED, TableProtectionChanged(True), event).protected
        assert not tables.folded(tables.CREATED, event).protected


def test_a_protected_view_is_dropped_only_with_force() -> None:
    protected = views.folded(views.CREATED, ViewProtectionChanged(True))
    with pytest.raises(ViewProtected, match=r"^View is protected: Orders; "):
        view.decide_drop(protected)
    assert ViewDropped() == view.decide_drop(protected, force=True)
    assert ViewDropped() == view.decide_drop(views.folded(views.CREATED, ViewProtectionChanged(True), ViewProtectionChanged(False)))


def test_commits_and_renames_keep_the_protection_of_a_view() -> None:
    protected = views.folded(views.CREATED, ViewProtectionChanged(True))
    for event in (views.committed(protected, views.SET), ViewRenamed(views.OTHER, "U", "u")):
        assert views.folded(views.CREATED, ViewProtectionChanged(True), event).protected
        assert not views.folded(views.CREATED, event).protected


def test_a_protection_that_is_as_requested_is_no_event() -> None:
    plain_table, plain_view = tables.folded(tables.CREATED), views.folded(views.CREATED)
    assert [None, TableProtectionChanged(True)] == [table.decide_protection(plain_table, protected=each) for each in (False, True)]
    assert [None, ViewProtectionChanged(True)] == [view.decide_protection(plain_view, protected=each) for each in (False, True)]
    protected = tables.folded(tables.CREATED, TableProtectionChanged(True))
    assert [TableProtectionChanged(False), None] == [table.decide_protection(protected, protected=each) for each in (False, True)]
