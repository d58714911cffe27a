"""GET /history/v1/events: pages, filters, long polls, single events, and refusals."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import orjson
import psycopg
import pytest

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.projects.create_project import create_project
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.commands import CreateNamespace
from icecore.domain.errors import AlreadyExists
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.domain.project import CreateProject
from icecore.domain.recorded import RecordedEvent
from icecore.log import follow
from icecore.log.follow import read_events
from icecore.log.head import log_head
from icecore.publishers import project_limit, pull, shared_batches
from icecore.publishers.cloud_events import encode_json, outgoing
from icecore.publishers.enricher import EventEnricher
from icecore.publishers.event_data import Dialect
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.command_runs import CommandRun
from tests.integration.history.serving import Served


async def as_sinks_have_it(dsn: str, dialect: Dialect = "icecore") -> list[bytes]:
    """The events of the default project, each with the bytes of a sink in structured mode."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        events = [each for each in await read_events(connection, 0, 10_000) if each.project_id == PROJECT_ID]
        return [encode_json(outgoing(each, dialect)) for each in (await EventEnricher().enrich(connection, events)).events]


async def head(served: Served) -> int:
    async with served.catalog.backends.connection() as connection:
        return await log_head(connection)


async def create(run: CommandRun, name: str, **properties: str) -> int:
    """Creates a namespace. Returns the position of its event."""
    command = CreateNamespace(NamespaceIdentifier((name,)), properties)
    return (await create_namespace(run.catalog.commands, context("createNamespace"), run.warehouse, command)).position


@pytest.mark.parametrize("dialect", ["icecore", "lakekeeper"])
async def test_events_are_those_of_sinks(served: Served, history: CommandRun, database: str, dialect: Dialect) -> None:
    """Byte for byte, oldest first, in both dialects."""
    answered = await served.get("/events", dialect=dialect)
    published = await as_sinks_have_it(database, dialect)
    assert [orjson.loads(body) for body in published] == answered.json["events"]
    end = await head(served)
    assert b'{"events":[' + b",".join(published) + b'],"position":%d,"next-page-token":null}' % end == answered.body
    assert str(end) == answered.headers["icecore-position"]
    assert "no-store" == answered.headers["cache-control"]


@pytest.mark.parametrize("size", [1, 7, 50])
async def test_pages_follow_one_another(served: Served, history: CommandRun, size: int) -> None:
    """By token and by position. Together they are the log of the project."""
    everything = (await served.get("/events")).positions
    async with served.catalog.backends.connection() as connection:
        query = "select notification_id from icecore.events where project_id = %s order by 1"
        assert [position for (position,) in await (await connection.execute(query, [PROJECT_ID])).fetchall()] == everything
    by_token: list[int] = []
    page = await served.get("/events", page_size=size)
    while True:
        assert len(page.positions) <= size
        by_token += page.positions
        if page.json["next-page-token"] is None:
            break
        page = await served.get("/events", page_size=size, page_token=page.json["next-page-token"])
    assert everything == by_token
    by_position: list[int] = []
    read = 0
    while (page := await served.get("/events", page_size=size, after=read)).positions:
        by_position += page.positions
        read = page.json["position"]
        assert read >= by_position[-1]
    assert everything == by_position


async def test_a_page_ends_at_the_requested_position(served: Served, history: CommandRun) -> None:
    """After a position, and up to and including another."""
    page = await served.get("/events", after=3, to=6)
    assert [4, 5, 6] == page.positions
    assert None is page.json["next-page-token"]
    assert [] == (await served.get("/events", after=6, to=6, wait_seconds=20)).positions


async def test_a_batch_is_what_cloudevents_call_one(served: Served, history: CommandRun, database: str) -> None:
    """A JSON array with the batch content type. A header has the position to continue from."""
    answered = await served.get("/events", {"Accept": "application/cloudevents-batch+json"}, page_size=5)
    assert "application/cloudevents-batch+json" == answered.headers["content-type"]
    assert b"[" + b",".join((await as_sinks_have_it(database))[:5]) + b"]" == answered.body
    assert "5" == answered.headers["icecore-position"]


@pytest.mark.parametrize(
    ("types", "verbs"),
    [
        ("table.renamed", {"table.renamed"}),
        (
            "io.icecore.table.renamed.v1,view.*",
            {
                "table.renamed",
                "view.created",
                "view.committed",
                "view.renamed",
                "view.dropped",
                "view.registered",
                "view.protection-changed",
                "view.undropped",
                "view.expired",
            },
        ),
        ("*.dropped", {"table.dropped", "view.dropped", "namespace.dropped"}),
    ],
)
async def test_types_are_chosen_as_sinks_choose_them(served: Served, history: CommandRun, types: str, verbs: set[str]) -> None:
    """With wildcards. The page has the position up to which the log was read."""
    page = await served.get("/events", types=types)
    assert verbs == {event["type"].removeprefix("io.icecore.").removesuffix(".v1") for event in page.json["events"]}
    assert await head(served) == page.json["position"]


async def test_warehouses_and_namespaces_are_chosen_as_sinks_choose_them(served: Served, history: CommandRun, tmp_path: Path) -> None:
    """A warehouse by name or id. A namespace includes nested ones, but not others whose names begin with its name."""
    write = history.catalog.commands
    (tmp_path / "other").mkdir()
    other = CreateWarehouse("other", {"type": "local", "directory": str(tmp_path / "other")})
    await create_warehouse(write, context("createWarehouse"), other)
    for levels in (("a",), ("a", "bc"), ("a", "b-c"), ("ab",)):
        command = CreateNamespace(NamespaceIdentifier(levels), {})
        with suppress(AlreadyExists):
            await create_namespace(write, context("createNamespace"), history.warehouse, command)
    everything = (await served.get("/events")).json["events"]
    own = [event for event in everything if event["warehouse"] == str(history.warehouse.id)]
    for reference in ("demo", "DEMO", history.warehouse.id):
        assert own == (await served.get("/events", warehouses=reference)).json["events"]
    assert ["other"] == [event["subject"] for event in (await served.get("/events", warehouses="other")).json["events"]]
    below = (await served.get("/events", namespaces="a.b")).json["events"]
    expected = [event for event in everything if f"{event['subject']}.".casefold().startswith("a.b.")]
    assert expected == below
    assert len(expected) > 2
    beside = [event["subject"] for event in everything if event["subject"] in ("ab", "a.bc", "a.b-c")]
    assert ["a.bc", "a.b-c", "ab"] == beside
    nothing = await served.get("/events", namespaces="nowhere")
    assert ([], await head(served)) == (nothing.json["events"], nothing.json["position"])


async def test_a_page_is_bounded_in_bytes_and_in_what_it_reads(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is not empty because of that. A filter with few matches continues on the next page."""
    monkeypatch.setattr(pull, "BATCH_EVENTS_MAX", 4)
    monkeypatch.setattr(pull, "PAGE_EVENTS_READ_MAX", 8)
    for number in range(20):
        await create(run, f"n{number}", text="x" * 1000)
    assert list(range(1, 9)) == (await served.get("/events")).positions
    seen, after = [], 0
    while after < 21:
        page = await served.get("/events", after=after, namespaces="n15")
        seen += page.positions
        assert after < page.json["position"] <= after + 8
        after = page.json["position"]
    assert [17] == seen
    monkeypatch.setattr(pull, "PAGE_BYTES_MAX", 3000)
    assert [1, 2, 3, 4] == (await served.get("/events")).positions
    monkeypatch.setattr(pull, "BATCH_BYTES_MAX", 1)
    assert [1, 2, 3] == (await served.get("/events")).positions
    monkeypatch.setattr(pull, "PAGE_BYTES_READ_MAX", 1500)
    page = await served.get("/events", after=1, namespaces="n15")
    assert ([], 3) == (page.positions, page.json["position"])


async def test_a_large_event_is_referred_to_and_found_whole(served: Served, run: CommandRun, database: str) -> None:
    """`dataref` returns it with all its data, as a sink without limits would publish it."""
    position = await create(run, "large", **{f"p{n}": "é" * 500_000 for n in range(3)})
    (event,) = (await served.get("/events", after=position - 1)).json["events"]
    assert "data" not in event
    assert f"/history/v1/events/{event['id']}" == event["dataref"]
    whole = await served.ask("GET", event["dataref"])
    assert "application/cloudevents+json" == whole.headers["content-type"]
    assert (await as_sinks_have_it(database))[-1] == whole.body
    assert len(whole.body) > 3_000_000
    in_dialect = await served.get(f"/events/{event['id']}", dialect="lakekeeper")
    assert (await as_sinks_have_it(database, "lakekeeper"))[-1] == in_dialect.body


async def test_a_long_poll_responds_when_another_process_commits(
    served: Served, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a notification; the polling interval is long here."""
    monkeypatch.setattr(follow, "POLL_SECONDS_MAX", 60.0)
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        elsewhere = await CommandRun.on(other)
        after = await head(served)
        for number in range(5):
            asked = asyncio.create_task(served.get("/events", after=after, wait_seconds=60))
            await until_followed(served, 1)
            position = await create(elsewhere, f"n{number}")
            async with asyncio.timeout(20):
                page = await asked
            assert [position] == page.positions
            after = position


async def test_a_long_poll_waits_for_an_event_that_matches_its_filter(served: Served, run: CommandRun) -> None:
    """Other events do not end it. At the end of the time it has the position up to which the log was read."""
    after = await head(served)
    asked = asyncio.create_task(served.get("/events", after=after, namespaces="wanted", wait_seconds=60))
    await until_followed(served, 1)
    await create(run, "other")
    wanted = await create(run, "wanted")
    page = await asked
    assert [wanted] == page.positions
    await create(run, "another")
    page = await served.get("/events", after=wanted, namespaces="wanted", wait_seconds=0.2)
    assert ([], wanted + 1, None) == (page.positions, page.json["position"], page.json["next-page-token"])


async def test_now_is_the_end_of_the_log(served: Served, history: CommandRun) -> None:
    """An empty page with the position to start from."""
    page = await served.get("/events", after="now")
    assert ([], await head(served)) == (page.positions, page.json["position"])


async def until_followed(served: Served, count: int) -> None:
    """Waits until that many clients wait for events."""
    async with asyncio.timeout(20):
        while served.catalog.events.metrics.subscribers != count:
            await asyncio.sleep(0.01)


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"types": "table.comitted"}, "table.committed"),
    ({"types": "table.committed,nothing"}, "'nothing'"),
    ({"after": "-1"}, "'after'"),
    ({"after": "ten"}, "'after'"),
    ({"after": "9" * 19}, "'after'"),
    ({"after": "\u0661"}, "'after'"),
    ({"to": "x"}, "'to'"),
    ({"page-token": "nonsense"}, "'page-token'"),
    ({"page-token": "WyJhIiwiYiJd"}, "'page-token'"),
    ({"dialect": "klingon"}, "'dialect'"),
    ({"warehouses": "demo@1"}, "'warehouses'"),
    ({"warehouses": "de\0mo"}, "control character"),
    ({"namespaces": ",".join(["n"] * 101)}, "'namespaces'"),
    ({"namespaces": "sales.*"}, "'namespaces'"),
    ({"after": "999999"}, "beyond the end"),
]
REFUSED_AS_PAGE: list[tuple[dict[str, str], str]] = [
    ({"page-size": "0"}, "'page-size'"),
    ({"page-size": "many"}, "'page-size'"),
    ({"wait-seconds": "soon"}, "'wait-seconds'"),
    ({"wait-seconds": "-1"}, "'wait-seconds'"),
    ({"wait-seconds": "nan"}, "'wait-seconds'"),
    ({"after": "999999", "wait-seconds": "30"}, "beyond the end"),
]


async def test_what_cannot_be_meant_is_refused(served: Served) -> None:
    """As a page and as a stream. The log is unchanged."""
    before = await head(served)
    asked = [(query, said, accept) for query, said in REFUSED for accept in ("application/json", "text/event-stream")]
    for query, said, accept in asked + [(query, said, "*/*") for query, said in REFUSED_AS_PAGE]:
        answered = await served.ask("GET", "/history/v1/events", headers={"Accept": accept}, query=query)
        assert (400, "BadRequestException") == answered.error, query
        assert said in answered.json["error"]["message"], query
    for last_event_id in ("seven", "-1", "1.5", "999999"):
        answered = await served.get("/events", {"Accept": "text/event-stream", "Last-Event-ID": last_event_id})
        assert (400, "BadRequestException") == answered.error
    assert before == await head(served)


async def test_a_token_goes_with_its_filter(served: Served, history: CommandRun) -> None:
    """With another filter, events would be missed."""
    token = (await served.get("/events", page_size=2, types="table.*")).json["next-page-token"]
    answered = await served.get("/events", page_size=2, types="view.*", page_token=token)
    assert (400, "BadRequestException") == answered.error
    both = await served.get("/events", types="table.*", page_token=token, after=1)
    assert (400, "BadRequestException") == both.error


async def test_what_does_not_exist_is_not_found(served: Served) -> None:
    """An unknown warehouse, event or address; and other methods than GET."""
    assert (404, "NoSuchWarehouseException") == (await served.get("/events", warehouses="demo,nowhere")).error
    assert (404, "NotFoundException") == (await served.get(f"/events/{UUID(int=7)}")).error
    assert (400, "BadRequestException") == (await served.get("/events/seven")).error
    assert (404, "NotFoundException") == (await served.get("/nothing")).error
    assert (405, "MethodNotAllowedException") == (await served.ask("POST", "/history/v1/events", {})).error


async def test_places_to_wait_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client beyond the limit is refused at once. Requests that do not wait are not limited."""
    monkeypatch.setattr(served.catalog.events, "_subscribers_max", 2)
    asked = [asyncio.create_task(served.get("/events", after="now", wait_seconds=60)) for _ in range(2)]
    await until_followed(served, 2)
    for answered in (
        await served.get("/events", after="now", wait_seconds=60),
        await served.get("/events", {"Accept": "text/event-stream"}),
        await served.get("/wait", position=10_000),
    ):
        assert (429, "TooManyRequestsException") == answered.error
    assert 200 == (await served.get("/events")).status
    assert 3 == served.catalog.events.metrics.subscribers_refused
    served.catalog.events.stop()
    assert [[], []] == [(await each).positions for each in asked]
    await until_followed(served, 0)


class _Held:
    """Reads of the log that wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reader: ModuleType = pull) -> None:
        self.count, self.let_go = 0, asyncio.Event()
        monkeypatch.setattr(reader, "read_events", self._read)

    async def _read(self, *given: Any, **named: Any) -> Sequence[RecordedEvent]:
        self.count += 1
        await self.let_go.wait()
        return await read_events(*given, **named)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.count < count:
                await asyncio.sleep(0.01)


async def test_readers_of_one_project_leave_connections_to_others(
    served: Served, history: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More readers than there are connections. Each gets its page in the end."""
    project_id = uuid4()
    await create_project(history.catalog.commands, context("createProject"), CreateProject("other", project_id))
    everything = (await served.get("/events")).positions
    held = _Held(monkeypatch)
    first = [asyncio.create_task(served.get("/events")) for _ in range(2 * pull.CONNECTIONS_MAX)]
    await held.until(pull.READS_OF_A_PROJECT_MAX)
    other = asyncio.create_task(served.get("/events", {"x-project-id": str(project_id)}))
    await held.until(pull.READS_OF_A_PROJECT_MAX + 1)
    assert pull.READS_OF_A_PROJECT_MAX + 1 == held.count < pull.CONNECTIONS_MAX, "a reader of the other project has a connection"
    held.let_go.set()
    assert [everything] * len(first) == [each.positions for each in await asyncio.gather(*first)]
    assert ["project.created"] == [event["type"].split(".", 2)[2].rsplit(".", 1)[0] for event in (await other).json["events"]]


async def test_readers_that_fall_behind_again_leave_connections_to_others(
    served: Served, history: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share batches, but at different positions there is nothing to share."""
    source, end = served.catalog.events, await served.catalog.events.head()
    readers = [source.reader(PROJECT_ID, types=(), warehouse_ids=(), namespaces=(), dialect="icecore") for _ in range(pull.CONNECTIONS_MAX)]
    assert all([(await reader.batch(end)).at_end for reader in readers])
    held = _Held(monkeypatch, shared_batches)
    batches = [asyncio.create_task(reader.batch(after)) for after, reader in enumerate(readers)]
    await held.until(pull.READS_OF_A_PROJECT_MAX)
    other = source.reader(uuid4(), types=(), warehouse_ids=(), namespaces=(), dialect="icecore")
    async with asyncio.timeout(10):
        assert 0 < (await other.batch(0)).position, "a connection is left"
    assert pull.READS_OF_A_PROJECT_MAX == held.count
    held.let_go.set()
    assert [after + 1 for after in range(len(readers))] == [batch.events[0].position for batch in await asyncio.gather(*batches)]


async def test_a_reader_that_waits_too_long_for_others_of_its_project_is_refused(
    served: Served, history: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, to be repeated after a second."""
    monkeypatch.setattr(project_limit, "WAIT_SECONDS_MAX", 0.05)
    held = _Held(monkeypatch)
    first = [asyncio.create_task(served.get("/events")) for _ in range(pull.READS_OF_A_PROJECT_MAX)]
    await held.until(pull.READS_OF_A_PROJECT_MAX)
    for path in ("/events", f"/events/{uuid4()}"):
        refused = await served.get(path)
        assert ((503, "ServiceUnavailableException"), "1") == (refused.error, refused.headers["retry-after"])
    held.let_go.set()
    assert {200} == {each.status for each in await asyncio.gather(*first)}
    assert 200 == (await served.get("/events")).status
