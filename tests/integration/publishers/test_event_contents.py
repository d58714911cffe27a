"""The content of events: every topic with its schema, names and locations as of the event, and the same bytes each time."""

from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import orjson
import psycopg
import pytest

from icecore.commands.tables.commit_table import commit_table
from icecore.commands.warehouses.change_warehouse import rename_warehouse
from icecore.compose import Application
from icecore.domain.commands import CommitTable
from icecore.domain.events import topics
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.project import DEFAULT_PROJECT_NAME
from icecore.domain.recorded import RecordedEvent
from icecore.domain.warehouse import RenameWarehouse
from icecore.log.follow import read_events
from icecore.projections import names
from icecore.projections.rebuild import rebuild
from icecore.publishers import references
from icecore.publishers.cloud_events import OrjsonFormat, encode_json, outgoing
from icecore.publishers.enriched_event import EnrichedEvent
from icecore.publishers.enricher import EventEnricher
from icecore.publishers.event_schemas import event_schemas
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.command_runs import EVERY_KIND, CommandRun, Step


async def describe(dsn: str, *, batch: int = 500, wanted: Sequence[str] = ()) -> list[EnrichedEvent]:
    """Renders the whole log as for a sink. `wanted` -- topics; default: all."""
    described: list[EnrichedEvent] = []
    enricher = EventEnricher()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        position = 0
        while events := await read_events(connection, position, batch):
            position = events[-1].position
            described += (await enricher.enrich(connection, [e for e in events if not wanted or e.topic in wanted])).events
    return described


async def published(dsn: str, **settings: Any) -> list[dict[str, Any]]:
    """The events as JSON objects."""
    return [orjson.loads(encode_json(outgoing(each, "icecore"))) for each in await describe(dsn, **settings)]


@pytest.fixture
async def run(catalog: Application) -> CommandRun:
    """A catalog with every kind of event."""
    opened = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await opened.step(step)
    return opened


async def test_every_topic_is_published_by_its_schema(run: CommandRun, database: str) -> None:
    """The log contains every topic. Each event is valid by its schema, and a CloudEvent."""
    events = await published(database)
    assert {f"io.icecore.{topic}" for topic in topics()} == {event["type"] for event in events}
    for event in events:
        jsonschema_rs.validator_for(event_schemas()[event["type"]]).validate(event["data"])
        assert event["dataschema"] == event_schemas()[event["type"]]["$id"]
        read = OrjsonFormat().read(None, orjson.dumps(event))
        assert event["id"] == read.get_id()
    assert list(range(1, len(events) + 1)) == [int(event["position"]) for event in events]


async def test_bytes_are_the_same_whenever_and_however_they_are_made(run: CommandRun, database: str) -> None:
    """In batches of one and of all, after later renames and drops, and on rebuilt read models."""
    first = [encode_json(outgoing(each, "icecore")) for each in await describe(database)]
    await run.step(Step("create_table", 2, 2))
    await run.step(Step("rename_table", 2, 2, 3))
    await run.step(Step("drop_table", 0, 0))
    singly = [encode_json(outgoing(each, "icecore")) for each in await describe(database, batch=1)]
    assert first == singly[: len(first)]
    await rebuild(database)
    assert singly == [encode_json(outgoing(each, "icecore")) for each in await describe(database, batch=7)]


async def test_a_filter_changes_no_byte_of_what_passes(run: CommandRun, database: str) -> None:
    """Events that do not match may change names of later ones."""
    everything = {event["id"]: event for event in await published(database)}
    some = await published(database, wanted=["table.committed.v1", "view.dropped.v1"])
    assert len(some) > 10
    assert [everything[event["id"]] for event in some] == some


async def test_pointers_lead_from_one_metadata_file_to_the_next(run: CommandRun, database: str) -> None:
    """For each table, `previous-metadata-location` is that of the previous event. The last one is the catalog's."""
    last: dict[str, str] = {}
    for event in await published(database):
        table = event["data"].get("table")
        if table is None:
            continue
        if event["type"].split(".")[3] in ("committed", "overwritten"):
            assert last[table["id"]] == event["data"]["previous-metadata-location"]
        last[table["id"]] = event["data"]["metadata-location"]
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select distinct on (table_id) table_id::text, metadata_location from icecore.tables order by table_id, version desc"
        )
        assert dict(rows.fetchall()) == last


async def test_names_that_are_kept_are_bounded_in_bytes(run: CommandRun, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any cache size, events are the same, and a reader caches no more than the limit."""
    everything = await published(database)
    for bytes_max in (1_500, 4_000):
        monkeypatch.setattr(references, "NAMES_BYTES_MAX", bytes_max)
        assert everything == await published(database, batch=3)
        reader = references.ReferenceReader()
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            for event in await read_events(connection, 0, 500):
                await reader.read(connection, [event])
                assert sum(map(references._names_bytes, reader.path_cache._cache.values())) <= bytes_max


async def test_a_rename_says_both_names(run: CommandRun, database: str) -> None:
    """`a.t` became `a.T`. Earlier events have the old name."""
    events = await published(database)
    renamed = next(event for event in events if event["type"] == "io.icecore.table.renamed.v1")
    assert ("a.T", "T", "t") == (renamed["subject"], renamed["data"]["table"]["name"], renamed["data"]["previous"]["name"])
    before = [
        event for event in events if event["partitionkey"] == renamed["partitionkey"] and int(event["position"]) < int(renamed["position"])
    ]
    assert {"a.t"} == {event["subject"] for event in before}


async def test_a_commit_says_what_it_changed(catalog: Application, database: str) -> None:
    """Properties, a snapshot with its summary, a schema, a tag and a removal, one by one."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table"), *(Step("commit", 0, 0, other) for other in (0, 1, 2, 3, 3))):
        await run.step(step)
    commits = [event["data"] for event in await published(database) if event["type"] == "io.icecore.table.committed.v1"]
    properties, snapshot, schema, tag, removal = commits
    assert (["p0", "kept"], []) == (list(properties["properties-set"]), properties["snapshots-added"])
    assert "current-snapshot-id" not in properties
    assert (snapshot["current-snapshot-id"], "append") == (snapshot["snapshots-added"][0]["snapshot-id"], snapshot["operation"])
    assert [{"name": "main", "type": "branch", "snapshot-id": snapshot["current-snapshot-id"]}] == snapshot["refs-set"]
    assert (1, snapshot["current-snapshot-id"]) == (schema["schema-id"], schema["current-snapshot-id"])
    assert "operation" not in schema
    assert {"main", "tag0"} == {ref["name"] for ref in tag["refs-set"]}
    assert (1, ["add-snapshot", "set-snapshot-ref", "set-snapshot-ref", "remove-snapshots"]) == (
        removal["snapshots-removed"],
        removal["actions"],
    )


async def test_a_roll_back_says_which_snapshot_is_the_current_one(catalog: Application, database: str) -> None:
    """The summary is read from the table's rows, because the commit does not contain it."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table"), Step("commit", 0, 0, 1), Step("commit", 0, 0, 1)):
        await run.step(step)
    table = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
    first = (await run.metadata(table))["metadata"]["snapshots"][0]["snapshot-id"]
    back = [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}]
    await commit_table(catalog.commands, context("updateTable"), run.warehouse, CommitTable(table, [], back))
    data = (await published(database))[-1]["data"]
    assert (first, "append", []) == (data["current-snapshot-id"], data["operation"], data["snapshots-added"])


async def test_a_commit_of_two_snapshots_tells_the_operation_of_the_current_one(catalog: Application, database: str) -> None:
    """Not that of the snapshot added before it."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table", other=1)):
        await run.step(step)
    table = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
    document = (await run.metadata(table))["metadata"]
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": document["last-updated-ms"] + number,
            "manifest-list": f"{document['location']}/metadata/snap-{number}.avro",
            "summary": {"operation": operation},
            "schema-id": 0,
        }
        for number, operation in ((1, "append"), (2, "overwrite"))
    ]
    updates = [
        *({"action": "add-snapshot", "snapshot": each} for each in snapshots),
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2},
    ]
    await commit_table(catalog.commands, context("updateTable"), run.warehouse, CommitTable(table, [], updates))
    data = (await published(database))[-1]["data"]
    assert (2, "overwrite") == (data["current-snapshot-id"], data["operation"])


async def test_what_a_thing_lies_in_is_read_once(run: CommandRun, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for a later batch."""
    for step in (Step("create_namespace"), Step("create_table"), Step("commit"), Step("commit")):
        await run.step(step)
    enricher = EventEnricher()
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        events = await read_events(connection, 0, 500)
        assert ["table.committed.v1"] * 2 == [event.topic for event in events[-2:]]
        (described,) = (await enricher.enrich(connection, events[-2:-1])).events
        monkeypatch.setattr(names, "_SQL", {**names._SQL, "names_at": b"select 1 / 0"})
        (again,) = (await enricher.enrich(connection, events[-1:])).events
    assert described.path == again.path


async def test_a_renamed_warehouse_has_the_name_that_it_had_at_each_event(catalog: Application, database: str) -> None:
    """However the events are read: forwards and backwards, one by one and together, by readers that share their cache."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    await run.step(Step("create_table"))
    expected = ["demo"] * 3
    for name in ("lake", "sea", "lake"):
        await rename_warehouse(catalog.commands, context("renameWarehouse"), run.warehouse, RenameWarehouse(name))
        await run.step(Step("commit"))
        expected += [name] * 2
    cache = references.PathCache()
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        events = await read_events(connection, 0, 500)

        async def names_read(chosen: Sequence[RecordedEvent]) -> list[str]:
            enriched = (await EventEnricher(path_cache=cache).enrich(connection, chosen)).events
            return [each.path[0] for each in enriched]

        assert expected == [name for event in events for name in await names_read([event])]
        assert expected == await names_read(events)
        assert expected[::-1] == [name for event in events[::-1] for name in await names_read([event])]
        cache.clear()
        assert expected[::-1] == [name for event in events[::-1] for name in await names_read([event])]
        cache.clear()
        assert expected == await names_read(events)
    renamed = [event["data"] for event in await published(database) if event["type"] == "io.icecore.warehouse.renamed.v1"]
    assert [("demo", "lake"), ("lake", "sea"), ("sea", "lake")] == [(data["previous-name"], data["warehouse"]["name"]) for data in renamed]


async def test_a_name_that_is_cached_is_not_used_after_a_rename(catalog: Application, database: str) -> None:
    """A reader that has read up to the end of the log, then events after a rename."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    enricher = EventEnricher()
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        seen = 0
        for expected, name in (("demo", "lake"), ("lake", "sea"), ("sea", "demo")):
            events = await read_events(connection, seen, 500)
            assert expected == (await enricher.enrich(connection, events)).events[-1].path[0]
            seen += len(events)
            await rename_warehouse(catalog.commands, context("renameWarehouse"), run.warehouse, RenameWarehouse(name))
            await run.step(Step("properties"))


async def test_a_name_read_before_another_reader_saw_its_rename_is_not_cached(
    catalog: Application, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two readers share a cache. While one reads the name, the other reads on, past the rename."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    cache, names_at = references.PathCache(), names.names_at

    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        events = await read_events(connection, 0, 500)

        async def renamed_meanwhile(asked: Any, objects: Sequence[Any]) -> Any:
            found = await names_at(asked, objects)
            if not later:
                await rename_warehouse(catalog.commands, context("renameWarehouse"), run.warehouse, RenameWarehouse("lake"))
                await run.step(Step("properties"))
                later.extend(await read_events(connection, len(events), 500))
                assert ["lake", "lake"] == [
                    each.path[0] for each in (await EventEnricher(path_cache=cache).enrich(connection, later)).events
                ]
            return found

        later: list[RecordedEvent] = []
        monkeypatch.setattr(names, "names_at", renamed_meanwhile)
        assert "demo" == (await EventEnricher(path_cache=cache).enrich(connection, events[:1])).events[0].path[0]
        await run.step(Step("properties", 0, 1))
        (last,) = await read_events(connection, len(events) + len(later), 500)
        assert "lake" == (await EventEnricher(path_cache=cache).enrich(connection, [last])).events[0].path[0]


async def test_ids_in_the_envelope_are_those_of_the_log(run: CommandRun, database: str) -> None:
    """Project, warehouse, stream, version and command are attributes, for routing."""
    events = await published(database)
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select event_id::text, originator_id::text, originator_version::text, warehouse_id::text, project_id::text,"
            " command_id::text, actor"
            " from icecore.events order by notification_id"
        ).fetchall()
    names = ("id", "partitionkey", "streamversion", "warehouse", "project", "command", "actor")
    assert rows == [tuple(event[name] for name in names) for event in events]
    assert {str(PROJECT_ID)} < {event["project"] for event in events}


async def test_a_renamed_project_has_its_previous_name(run: CommandRun, database: str) -> None:
    """Also the default one, which has a name before its first event."""
    of_projects = [event for event in await published(database) if event["type"].startswith("io.icecore.project.")]
    renamed = [
        (event["data"]["previous-name"], event["data"]["project"]["name"]) for event in of_projects if event["type"].endswith("renamed.v1")
    ]
    assert (DEFAULT_PROJECT_NAME, "Tenants 0") in renamed
    assert ("Tenants 0", DEFAULT_PROJECT_NAME) in renamed
    team = next(event["data"]["project"] for event in of_projects if event["type"] == "io.icecore.project.created.v1")
    assert (team["name"], f"{team['name']} of old") in renamed
    assert [{"id": team["id"], "name": f"{team['name']} of old"}] == [
        event["data"]["project"] for event in of_projects if event["type"] == "io.icecore.project.deleted.v1"
    ]
