"""Events: golden files have the stored form of every topic, which every later program can read."""

import base64
import hashlib
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from icecore.domain import events
from icecore.domain.events import (
    Event,
    MaintenanceFinished,
    MaintenancePlanned,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceExpired,
    NamespaceMoved,
    NamespacePropertiesChanged,
    NamespaceProtectionChanged,
    NamespaceUndropped,
    ProjectCreated,
    ProjectDeleted,
    ProjectRenamed,
    ProposalApproved,
    ProposalExpired,
    ProposalOpened,
    ProposalRejected,
    ProposalStale,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableExpired,
    TableOverwritten,
    TableProtectionChanged,
    TablePurgeCancelled,
    TablePurged,
    TableRegistered,
    TableRenamed,
    TableUndropped,
    TableUnregistered,
    TaskAttemptFailed,
    TaskDeletionBegun,
    TaskScheduled,
    TaskStopped,
    ViewCommitted,
    ViewCreated,
    ViewDropped,
    ViewExpired,
    ViewProtectionChanged,
    ViewRegistered,
    ViewRenamed,
    ViewUndropped,
    WarehouseActivated,
    WarehouseConfigChanged,
    WarehouseCreated,
    WarehouseDeactivated,
    WarehouseDeleted,
    WarehouseDeleteProfileChanged,
    WarehouseFormatVersionPolicyChanged,
    WarehouseNamespaceMoved,
    WarehouseProtectionChanged,
    WarehousePurgeDefaultChanged,
    WarehouseReadOnlyChanged,
    WarehouseRenamed,
    WarehouseStorageCredentialChanged,
    WarehouseStorageProfileChanged,
    WarehouseTaskQueueConfigChanged,
    data_json,
    decode,
    topics,
    upcaster,
)

GOLDEN = Path(__file__).parent / "golden_events"
# sha256 of each file. Logs contain events in this form, so a file is never changed or deleted.
FROZEN = GOLDEN / "FROZEN"

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
PARENT = UUID("01890a5d-ac96-774b-bcce-b302099a8058")
KEY = "s3|s3://bucket/warehouse/0189/"
TABLE_METADATA: dict[str, Any] = {
    "format-version": 3,
    "table-uuid": str(ID),
    "location": "s3://bucket/warehouse/0189",
    "last-sequence-number": 1,
    "last-updated-ms": 1_700_000_000_001,
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "é", "required": False, "type": "long"}]}],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "properties": {"k": "v"},
    "current-snapshot-id": 9_007_199_254_740_993,
    "refs": {"main": {"snapshot-id": 9_007_199_254_740_993, "type": "branch"}},
    "snapshots": [{"snapshot-id": 9_007_199_254_740_993, "sequence-number": 1, "timestamp-ms": 1_700_000_000_001, "first-row-id": 0}],
    "statistics": [],
    "partition-statistics": [],
    "snapshot-log": [{"snapshot-id": 9_007_199_254_740_993, "timestamp-ms": 1_700_000_000_001}],
    "metadata-log": [],
    "encryption-keys": [],
    "next-row-id": 10,
    "unknown-member": {"kept": [1, 2.5, None, True]},
}
VIEW_METADATA: dict[str, Any] = {
    "view-uuid": str(ID),
    "format-version": 1,
    "location": "s3://bucket/warehouse/v",
    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
    "current-version-id": 1,
    "versions": [{"version-id": 1, "schema-id": 0, "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]}],
    "version-log": [{"version-id": 1, "timestamp-ms": 1_700_000_000_000}],
    "properties": {},
}
DELTA: dict[str, Any] = {
    "head": {"set": {"last-updated-ms": 1_700_000_000_002}, "removed": ["unknown-member"]},
    "properties": {"set": {"a": "b"}, "removed": ["k"]},
    "parts": {
        "refs": {"added": [[7, {"snapshot-id": 2, "type": "tag"}, "tag"]], "removed": [4]},
        "snapshots": {"added": [[8, {"snapshot-id": 2}]], "removed": []},
    },
}

# The newest version of every event, as in its golden file.
EXAMPLES: list[Event] = [
    ProjectCreated("Équipe", "équipe"),
    ProjectRenamed("Team B", "team b"),
    ProjectDeleted(),
    WarehouseCreated("Demo", "demo", {"type": "local", "directory": "/srv/é"}, PARENT, True),
    WarehouseConfigChanged({"rest-page-size": "500"}, ["a"], {"é": "1"}, []),
    WarehouseRenamed("Lac d'Été", "lac d'été"),
    WarehouseActivated(),
    WarehouseDeactivated(),
    WarehouseProtectionChanged(True),
    WarehouseFormatVersionPolicyChanged([2, 3], None),
    WarehouseReadOnlyChanged(True),
    WarehouseStorageProfileChanged({"type": "local", "directory": "/srv/é", "allowed-locations": []}, None),
    WarehouseStorageCredentialChanged(PARENT),
    WarehouseDeleteProfileChanged("soft", 604_800),
    WarehousePurgeDefaultChanged(True),
    WarehouseNamespaceMoved(ID),
    WarehouseTaskQueueConfigChanged("tabular_purge", 600),
    WarehouseDeleted(),
    NamespaceCreated(PARENT, "Zürich", "zürich", "local|file:///w/n/", {"owner": "me", "location": "file:///w/n"}),
    NamespacePropertiesChanged({"a": "1"}, ["b"]),
    NamespaceProtectionChanged(True),
    NamespaceMoved(PARENT, "Genève", "genève"),
    NamespaceDropped(),
    NamespaceUndropped(),
    NamespaceExpired(),
    TableCreated(PARENT, "T", "t", KEY, "s3://bucket/warehouse/0189/metadata/00000-a.metadata.json", TABLE_METADATA, True),
    TableRegistered(PARENT, "T", "t", KEY, "s3://bucket/warehouse/0189/metadata/v1.json", TABLE_METADATA),
    TableOverwritten(KEY, "s3://bucket/warehouse/0189/metadata/v2.json", TABLE_METADATA),
    TableCommitted("s3://bucket/warehouse/0189/metadata/00001-b.metadata.json", None, DELTA, ["set-properties", "add-snapshot"]),
    TableRenamed(PARENT, "U", "u"),
    TableProtectionChanged(True),
    TableDropped(True),
    TableUndropped(),
    TableExpired(),
    TableUnregistered(),
    TablePurged(3),
    TablePurgeCancelled(),
    ViewCreated(PARENT, "V", "v", "s3|s3://bucket/warehouse/v/", "s3://bucket/warehouse/v/metadata/00000-a.metadata.json", VIEW_METADATA),
    ViewRegistered(PARENT, "V", "v", "s3|s3://bucket/warehouse/v/", "s3://bucket/warehouse/v/metadata/v1.json", VIEW_METADATA),
    ViewCommitted("s3://bucket/warehouse/v/metadata/00001-b.metadata.json", "s3|s3://bucket/w/", DELTA, ["set-properties"]),
    ViewRenamed(PARENT, "W", "w"),
    ViewProtectionChanged(True),
    ViewDropped(),
    ViewUndropped(),
    ViewExpired(),
    ProposalOpened(
        "updateTable",
        "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
        {"table": {"namespace": ["a", "b"], "name": "t"}, "requirements": [], "updates": [DELTA]},
        "anonymous",
        "contract",
        "column é is dropped",
        1_700_000_000_000,
        1_700_003_600_000,
        [{"kind": "table", "id": str(ID), "name": ["a", "b", "t"]}],
    ),
    ProposalApproved("anonymous"),
    ProposalRejected("anonymous", "not now"),
    ProposalExpired(),
    ProposalStale(),
    TaskScheduled("tabular_purge", "table", PARENT, 1_700_000_000_000),
    TaskStopped("tabular_purge", "table", PARENT),
    TaskDeletionBegun("tabular_purge", "table", PARENT, 2, 1_700_000_000_000),
    MaintenancePlanned(
        PARENT, "rewrite_data_files", "500 files of 1 KiB on average", {"data-files-removed": 499, "bytes-rewritten": 512_000}, False
    ),
    MaintenanceFinished(PARENT, "rewrite_data_files", "failed", {}, 3, 1_200, "The object store does not respond: é"),
    TaskAttemptFailed(
        "tabular_purge", "table", PARENT, 4, 1_700_000_000_000, 1_700_000_000_100, 1_700_000_008_100, "The object store does not respond: é"
    ),
]


def golden(topic: str) -> bytes:
    return (GOLDEN / f"{topic}.json").read_bytes().removesuffix(b"\n")


def test_every_topic_has_a_golden_file_and_no_file_is_without_its_topic() -> None:
    """Including topics that are upcast, because old logs contain them."""
    assert {f"{topic}.json" for topic in topics()} == {path.name for path in GOLDEN.glob("*.json")}


def test_every_topic_is_stable_and_versioned() -> None:
    """`<noun>.<past participle>.v<n>`, not the path of a class."""
    for topic in topics():
        noun, _, version = topic.split(".")
        assert noun in ("project", "warehouse", "namespace", "table", "view", "proposal", "task", "maintenance")
        assert version[0] == "v"
        assert version[1:].isdigit()


def test_no_golden_file_was_changed_or_removed() -> None:
    """A changed event gets a new version, a new file, and an upcaster from the previous version."""
    frozen = dict(line.split("  ")[::-1] for line in FROZEN.read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in GOLDEN.glob("*.json")}
    assert frozen == found


def test_there_is_an_example_of_every_event() -> None:
    """The newest version of each."""
    assert set(events._EVENTS.values()) == {type(example) for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.TOPIC)
def test_what_was_stored_is_read_as_the_event_it_was(example: Event) -> None:
    assert example == decode(example.TOPIC, golden(example.TOPIC))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.TOPIC)
def test_an_event_is_stored_in_the_bytes_it_always_was(example: Event) -> None:
    assert golden(example.TOPIC) == example.encode()


@pytest.mark.parametrize(
    ("event", "added"),
    [
        (TableCreated(PARENT, "T", "t", KEY, "s3://b/m.json", TABLE_METADATA, True, [f"{KEY}x/"]), {"path-keys": [f"{KEY}x/"]}),
        (TableRegistered(PARENT, "T", "t", KEY, "s3://b/m.json", TABLE_METADATA, [f"{KEY}x/"]), {"path-keys": [f"{KEY}x/"]}),
        (TableOverwritten(KEY, "s3://b/m.json", TABLE_METADATA, [f"{KEY}x/"]), {"path-keys": [f"{KEY}x/"]}),
        (TableCommitted("s3://b/m.json", None, DELTA, [], [f"{KEY}x/"]), {"path-keys": [f"{KEY}x/"]}),
        (TableDropped(True, gc_enabled=False), {"gc-enabled": False}),
        (NamespaceDropped(1_700_000_000_000, PARENT), {"expires-at-ms": 1_700_000_000_000, "root-id": str(PARENT)}),
        (TableDropped(True, expires_at_ms=1_700_000_000_000), {"expires-at-ms": 1_700_000_000_000}),
        (ViewDropped(1_700_000_000_000), {"expires-at-ms": 1_700_000_000_000}),
        (TablePurged(3, ["s3://b/x"], 7), {"files-left": ["s3://b/x"], "files-left-count": 7}),
    ],
    ids=lambda each: each.TOPIC if isinstance(each, Event) else "",
)
def test_a_new_field_is_stored_last_and_omitted_if_none(event: Event, added: dict[str, Any]) -> None:
    """The golden files have the form without it, which is decoded as None."""
    stored = orjson.loads(event.encode())
    assert added == {member: stored[member] for member in [*stored][-len(added) :]}
    assert event == decode(event.TOPIC, event.encode())
    plain = decode(event.TOPIC, golden(event.TOPIC))
    assert {None} == {getattr(plain, member.replace("-", "_")) for member in added}
    assert not {*added} & {*orjson.loads(plain.encode())}


def test_an_unknown_topic_is_said_to_be_of_a_newer_program() -> None:
    """It is not skipped."""
    with pytest.raises(LookupError, match=r"unknown event topic 'table\.melted\.v1': written by a newer version"):
        decode("table.melted.v1", b"{}")


def test_an_event_cannot_be_changed() -> None:
    """Event classes are frozen."""
    with pytest.raises(AttributeError):
        EXAMPLES[0].name = "other"  # type: ignore[attr-defined]


@pytest.fixture
def registry() -> Iterator[None]:
    """Removes the test's registrations afterwards."""
    upcasters = dict(events._UPCASTERS)
    yield
    events._UPCASTERS.clear()
    events._UPCASTERS.update(upcasters)


@pytest.mark.usefixtures("registry")
def test_an_old_version_is_brought_up_step_by_step() -> None:
    """Before v1 a drop had no purge flag, and before that it had another name."""

    @upcaster("table.dropped.v0", "table.dropped.v1")
    def _with_purge(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "purge-requested": False}

    @upcaster("table.removed.v0", "table.dropped.v0")
    def _without_reason(state: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key != "reason"}

    assert TableDropped(False) == decode("table.dropped.v0", b"{}")
    assert TableDropped(False) == decode("table.removed.v0", b'{"reason":"old"}')
    assert TableDropped(True) == decode("table.dropped.v1", golden("table.dropped.v1"))
    assert {"table.dropped.v0", "table.removed.v0"} < set(topics()), "each would need its golden file"


@pytest.mark.usefixtures("registry")
def test_a_topic_has_one_reading() -> None:
    """An upcaster may not replace an event or another upcaster."""
    with pytest.raises(AssertionError):
        upcaster("table.dropped.v1", "table.renamed.v1")(lambda state: state)
    upcaster("table.dropped.v0", "table.dropped.v1")(lambda state: state)
    with pytest.raises(AssertionError):
        upcaster("table.dropped.v0", "table.dropped.v1")(lambda state: state)


def test_large_integers_survive() -> None:
    """Snapshot ids have 64 bits, which a float cannot represent."""
    created = decode("table.created.v1", golden("table.created.v1"))
    assert isinstance(created, TableCreated)
    assert 9_007_199_254_740_993 == created.metadata["current-snapshot-id"]
    assert orjson.loads(created.encode()) == orjson.loads(golden("table.created.v1"))


def test_a_large_state_is_stored_deflated_and_read_the_same() -> None:
    """At the limit and one byte above. `data_json` returns the JSON of either."""
    plain = NamespacePropertiesChanged({"k": ""}, [])
    room = events.DATA_BYTES_PLAIN_MAX - len(plain.encode())
    at_the_bound = NamespacePropertiesChanged({"k": "x" * room}, [])
    above = NamespacePropertiesChanged({"k": "x" * (room + 1)}, [])
    assert at_the_bound.encode().startswith(b"{")
    assert above.encode().startswith(b"\x78")
    for event in (at_the_bound, above):
        assert event == decode(event.TOPIC, event.encode())
        assert {"updates": event.updates, "removals": []} == orjson.loads(data_json(event.encode()))


@pytest.mark.parametrize("level", [1, 6])
def test_a_state_deflated_by_zlib_is_read(level: int) -> None:
    """Older states were deflated by zlib instead of isal."""
    event = NamespacePropertiesChanged({"k": "x" * 2 * events.DATA_BYTES_PLAIN_MAX}, [])
    written = zlib.compress(data_json(event.encode()), level)
    assert written != event.encode()
    assert event == decode(event.TOPIC, written)
    assert len(data_json(written)) == events.data_size(written) == events.data_size(event.encode())


def test_a_large_state_is_counted_in_the_time_of_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remaining bytes must not be copied for each piece that is counted."""
    inflate = zlib.decompressobj()
    given: list[int] = []

    class Noting:
        unconsumed_tail = b""

        def decompress(self, data: bytes, max_length: int) -> bytes:
            given.append(len(data))
            found = inflate.decompress(data, max_length)
            self.unconsumed_tail = inflate.unconsumed_tail
            return found

        def flush(self) -> bytes:
            return inflate.flush()

    event = NamespacePropertiesChanged({"k": base64.b64encode(random.Random(1).randbytes(3_000_000)).decode()}, [])
    written = event.encode()
    monkeypatch.setattr(events.zlib, "decompressobj", Noting)
    assert len(b'{"removals":[],"updates":{"k":""}}') + 4_000_000 == events.data_size(written)
    assert sum(given) < 2 * len(written)
