"""Metrics reports over HTTP: stored unchanged, with limits, without delaying requests."""

import asyncio
import json
import threading
from uuid import UUID

import psycopg
import pytest
import structlog
from uuid_utils.compat import uuid7

from icecore.commands.tables import metrics_reports
from icecore.commands.tables.metrics_reports import QUEUE_BYTES_MAX, QUEUE_REPORTS_MAX, MetricsReport, MetricsReports
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock, lock_session, unlock
from icecore.pipeline.landed_tables import SCAN_REPORTS
from icecore.pipeline.metrics_source import RANGE_REPORTS, MetricsSource
from tests.fixtures.rest_client import RestClient, table_path
from tests.fixtures.shared_server import SharedCatalog

WAREHOUSE, BUSY_WAREHOUSE = UUID(int=1), UUID(int=2)
PATH = f"{table_path(['a'], 't')}/metrics"


def stored(shared_catalog: SharedCatalog, table_id: UUID, count: int) -> list[bytes]:
    """The reports of a table once there are `count`; they are written in the background."""
    waiting = threading.Event()
    for _ in range(100):
        rows = shared_catalog.rows("select report from icecore.metrics_reports where table_id = %s order by report_id", table_id)
        if len(rows) >= count:
            break
        waiting.wait(0.05)
    assert count == len(rows)
    return [report for (report,) in rows]


def table_id(client: RestClient) -> UUID:
    return UUID(client.create_table(["a"], "t").json["metadata"]["location"].rpartition("/")[2])


@pytest.mark.parametrize(
    "body",
    [
        b'{"report-type":"scan-report","table-name":"a.t","snapshot-id":1,"filter":true,"metrics":{}}',
        b'{ "report-type" : "commit-report", "unknown" : { "kept" : [1.50, "\xc3\xa4"] } }',
    ],
)
def test_a_report_is_kept_as_it_came(client: RestClient, shared_catalog: SharedCatalog, body: bytes) -> None:
    """Byte for byte, and it is not an event."""
    table = table_id(client)
    ((events,),) = shared_catalog.rows("select count(*) from icecore.events")
    response = client.call("POST", PATH, body)
    assert (204, b"") == (response.status, response.body)
    assert "icecore-position" not in response.headers
    assert [body] == stored(shared_catalog, table, 1)
    assert [(events,)] == shared_catalog.rows("select count(*) from icecore.events")


@pytest.mark.parametrize(
    ("sent", "stored_type"),
    [("scan-report", "scan-report"), ("commit-report", "commit-report"), ("x" * 10_000, "other")],
    ids=["scan", "commit", "unknown and long"],
)
def test_a_report_is_stored_with_its_context(client: RestClient, shared_catalog: SharedCatalog, sent: str, stored_type: str) -> None:
    """Type, warehouse and principal. A type that no index of Postgres can hold does not lose the reports of its batch."""
    table = table_id(client)
    assert 204 == client.call("POST", PATH, {"report-type": sent}).status
    stored(shared_catalog, table, 1)
    sql = (
        "select r.report_type, r.actor, r.warehouse_id = t.warehouse_id from icecore.metrics_reports r"
        " join icecore.tables t on t.table_id = r.table_id where r.table_id = %s"
    )
    assert [(stored_type, "anonymous", True)] == shared_catalog.rows(sql, table)


def test_positions_follow_the_order_of_commits(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """A process that is slow to commit holds back the others, so no report appears before one that was already read."""
    table = table_id(client)
    with psycopg.connect(shared_catalog.server.dsn) as slow:
        slow.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.METRICS_REPORTS])
        (first,) = slow.execute(
            "insert into icecore.metrics_reports (report_id, table_id, received_at, report_type, report)"
            " values (gen_random_uuid(), gen_random_uuid(), now(), 'other', '') returning position"
        ).fetchone() or (None,)
        assert 204 == client.call("POST", PATH, {"report-type": "scan-report"}).status
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
        while shared_catalog.rows(waiting) == [(0,)]:
            threading.Event().wait(0.02)
        assert [] == shared_catalog.rows("select position from icecore.metrics_reports where table_id = %s", table)
    stored(shared_catalog, table, 1)
    [(second,)] = shared_catalog.rows("select position from icecore.metrics_reports where table_id = %s", table)
    assert first < second


def test_a_report_of_no_table_is_refused(client: RestClient) -> None:
    """404."""
    refused = client.call("POST", PATH, {"report-type": "scan-report"})
    assert ((404, "NoSuchTableException"), "Table does not exist: a.t") == (refused.error, refused.message)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"{}", 400), (b'{"report-type": 1}', 400), (b'{"report-type":"' + b"x" * 300_000 + b'"}', 413)],
    ids=["empty", "list", "no type", "odd type", "too long"],
)
def test_what_is_no_report_is_refused(client: RestClient, body: bytes, status: int) -> None:
    """An Iceberg error, not a 500."""
    table_id(client)
    refused = client.call("POST", PATH, body)
    assert status == refused.error[0]


def test_reports_of_many_engines_at_once_all_arrive(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """Each once."""
    table = table_id(client)
    bodies = [json.dumps({"report-type": "scan-report", "number": number}).encode() for number in range(24)]
    assert {204} == {response.status for response in client.together([("POST", PATH, body, None) for body in bodies])}
    assert sorted(bodies) == sorted(stored(shared_catalog, table, 24))


def report(content: bytes, warehouse_id: UUID = WAREHOUSE) -> MetricsReport:
    """A report of some table."""
    return MetricsReport(uuid7(), warehouse_id, "somebody", "scan-report", content)


async def count(catalog: Application) -> list[int]:
    """The numbers of the stored reports."""
    async with catalog.backends.connection() as connection:
        cursor = await connection.execute("select report from icecore.metrics_reports")
        return sorted(int(report.lstrip(b"0") or b"0") for (report,) in await cursor.fetchall())


@pytest.mark.parametrize(("limits", "kept_of_25"), [((10,), 10), ((1_000, 40), 20)], ids=["by number", "by bytes"])
async def test_only_the_newest_reports_stay(catalog: Application, limits: tuple[int, ...], kept_of_25: int) -> None:
    """`reports_max` and `bytes_max` limit the table. The oldest are deleted."""
    reports = MetricsReports(catalog.backends, *limits)
    for number in range(25):
        reports.enqueue(report(f"{number:02}".encode()))
    reports.start()
    kept: list[int] = []
    for _ in range(100):
        kept = await count(catalog)
        if kept and kept[0] > 0:
            break
        await asyncio.sleep(0.02)
    await reports.close()
    assert list(range(25 - kept_of_25, 25)) == kept


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [([5, 5, 5], [2, 1]), ([4, 5, 5], [3]), ([10, 1], [1, 1]), ([20, 1], [1, 1]), ([1] * 7, [4, 3])],
)
def test_a_statement_has_its_bounds(catalog: Application, monkeypatch: pytest.MonkeyPatch, sizes: list[int], batches: list[int]) -> None:
    """In number and in bytes."""
    monkeypatch.setattr(metrics_reports, "_BATCH_BYTES_MAX", 10)
    monkeypatch.setattr(metrics_reports, "_BATCH_REPORTS_MAX", 4)
    reports = MetricsReports(catalog.backends, 1_000)
    for size in sizes:
        reports.enqueue(report(b"x" * size))
    found = []
    while not reports._queue.empty():
        found.append(len(reports._batch([reports._queue.get_nowait()])))
    assert batches == found


async def test_with_a_limit_of_0_no_report_is_ever_stored(catalog: Application) -> None:
    """Reports contain filters and the names of principals, which an operator may not want in the database."""
    reports = MetricsReports(catalog.backends, 0)
    reports.start()
    for number in range(3):
        reports.enqueue(report(str(number).encode()))
        await reports._queue.join()
    assert [] == await count(catalog)
    await reports.close()


async def test_what_waits_is_written_when_the_server_stops(catalog: Application) -> None:
    """A graceful stop loses no report."""
    reports = MetricsReports(catalog.backends, 1_000)
    for number in range(250):
        reports.enqueue(report(str(number).encode()))
    await reports.close()
    assert list(range(250)) == await count(catalog)


async def test_a_full_queue_drops_reports_and_refuses_nothing(catalog: Application) -> None:
    """An engine is not delayed by its report."""
    reports = MetricsReports(catalog.backends, 10_000)
    half = QUEUE_REPORTS_MAX // 2
    for number in range(half + 50):
        reports.enqueue(report(str(number).encode(), BUSY_WAREHOUSE))
    for number in range(half, QUEUE_REPORTS_MAX + 50):
        reports.enqueue(report(str(number).encode()))
    await reports.close()
    assert list(range(QUEUE_REPORTS_MAX)) == await count(catalog)
    reports.enqueue(report(str(QUEUE_REPORTS_MAX).encode(), BUSY_WAREHOUSE))
    await reports.close()
    assert QUEUE_REPORTS_MAX + 1 == len(await count(catalog))


@pytest.mark.parametrize(("limits", "busy"), [((10,), [24, 25, 26, 27, 28, 29]), ((1_000, 20), [24, 25, 26, 27, 28, 29])])
async def test_a_busy_warehouse_pushes_out_its_own_reports_first(catalog: Application, limits: tuple[int, ...], busy: list[int]) -> None:
    """Those of the other one are older, and less than half."""
    reports = MetricsReports(catalog.backends, *limits)
    for number in range(30):
        reports.enqueue(report(f"{number:02}".encode(), WAREHOUSE if number < 4 else BUSY_WAREHOUSE))
    await reports.close()
    assert [0, 1, 2, 3, *busy] == await count(catalog)


async def test_a_stop_does_not_wait_for_a_stuck_session(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lock for longer than service managers wait. The lost reports are logged."""
    monkeypatch.setattr(metrics_reports, "CLOSE_SECONDS_MAX", 0.3)
    reports = MetricsReports(catalog.backends, 1_000)
    async with catalog.backends.connection() as stuck:
        await lock_session(stuck, AdvisoryLock.METRICS_REPORTS)
        for number in range(250):
            reports.enqueue(report(str(number).encode()))
        with structlog.testing.capture_logs() as logs:
            async with asyncio.timeout(20):
                await reports.close()
        await unlock(stuck, AdvisoryLock.METRICS_REPORTS)
    assert [("metrics_reports_lost", 250)] == [(log["event"], log["reports"]) for log in logs]
    assert [] == await count(catalog)


def test_batches_are_divided_by_reports_not_by_positions(shared_catalog: SharedCatalog) -> None:
    """Positions have gaps of millions, and each range is a task with a connection. Reports about the own warehouse are left out, those
    without a warehouse are not: their tables were purged before migration 0016.
    """
    own, other = uuid7(), uuid7()
    insert = (
        "insert into icecore.metrics_reports (report_id, table_id, warehouse_id, received_at, report_type, report)"
        " select gen_random_uuid(), gen_random_uuid(), %s, now(), %s, '{}' from generate_series(1, %s) returning position"
    )
    source = MetricsSource(shared_catalog.server.dsn, own)
    after = source.last_position()
    with psycopg.connect(shared_catalog.server.dsn, autocommit=True) as connection:
        connection.execute(insert, [own, "scan-report", 10])
        connection.execute("alter table icecore.metrics_reports alter column position restart with 300000000")
        found = [position for (position,) in connection.execute(insert, [other, "scan-report", RANGE_REPORTS + 3]).fetchall()]
        connection.execute("alter table icecore.metrics_reports alter column position restart with 600000000")
        found += [position for (position,) in connection.execute(insert, [other, "scan-report", 5]).fetchall()]
        found += [position for (position,) in connection.execute(insert, [None, "scan-report", 2]).fetchall()]
        connection.execute(insert, [other, "commit-report", 1])
    batch = source.batch(SCAN_REPORTS, after, 10_000)
    assert batch is not None
    assert (((after, found[RANGE_REPORTS - 1]), (found[RANGE_REPORTS - 1], found[-1])), len(found)) == (batch.ranges, batch.count)
    assert found == [row[0] for row in source.read(SCAN_REPORTS, batch.ranges)]
    limited = source.batch(SCAN_REPORTS, after, 7)
    assert limited is not None
    assert (((after, found[6]),), 7, found[6]) == (limited.ranges, limited.count, limited.to)
    assert source.batch(SCAN_REPORTS, found[-1], 10) is None
    assert found[-1] + 1 == source.last_position()


async def test_large_reports_fill_the_queue_by_their_bytes(catalog: Application) -> None:
    """A thousand reports of the permitted size would be a quarter of a gigabyte. Written reports free memory."""
    reports = MetricsReports(catalog.backends, 10_000)
    large = QUEUE_BYTES_MAX // 4
    for number in (1, 2, 3):
        reports.enqueue(report(str(number).encode().zfill(large), BUSY_WAREHOUSE))
    for number in (4, 5, 6):
        reports.enqueue(report(str(number).encode().zfill(large)))
    await reports.close()
    assert [1, 2, 4, 5] == await count(catalog)
    reports.enqueue(report(b"7".zfill(large)))
    reports.enqueue(report(b"8".zfill(large)))
    await reports.close()
    assert [1, 2, 4, 5, 7, 8] == await count(catalog)


async def test_what_keeps_some_reports_from_being_written_keeps_no_later_ones(catalog: Application) -> None:
    """The table is temporarily missing, as during a restore, which is not an error of the connection."""
    reports = MetricsReports(catalog.backends, 10_000)
    async with catalog.backends.connection() as connection:
        await connection.execute("alter table icecore.metrics_reports rename to away")
        with structlog.testing.capture_logs() as logs:
            reports.start()
            reports.enqueue(report(b"1"))
            while not logs:
                await asyncio.sleep(0.01)
        await connection.execute("alter table icecore.away rename to metrics_reports")
    reports.enqueue(report(b"2"))
    await reports.close()
    assert [2] == await count(catalog)
    assert [("metrics_reports_lost", "UndefinedTable, SQLSTATE 42P01")] == [(log["event"], log["error"]) for log in logs]
