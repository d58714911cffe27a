"""Tasks: expiries and purges are listed, loaded, stopped, cancelled and scheduled as in Lakekeeper's management API."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.warehouse import Warehouse
from icecore.commands.execution.clock import now_ms
from icecore.commands.execution.retry_pauses import PAUSE_SECONDS_MAX
from icecore.commands.tables.purge_tables import PurgeJob
from icecore.commands.tabulars.expire_soft_deleted import ExpireSoftDeletedJob
from icecore.commands.tasks.control_tasks import control_tasks
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.errors import ExpirationFixed, NoSuchTask, PurgeBegun, ServiceUnavailable, TaskFinished
from icecore.domain.task import TASK_STATUSES, Action, ControlTasks
from icecore.domain.warehouse import DeleteProfile, SetTaskQueueConfig, SetWarehouseReadOnly, UpdateWarehouseDeleteProfile
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from icecore.queries.list_tasks import FoundTask, TaskFilter, list_tasks, load_task
from tests.fixtures.catalog import before_append, context, opened_catalog
from tests.fixtures.clocks import clocks_behind
from tests.integration.test_purge import files
from tests.integration.test_purge_job import SECONDS_MAX, Point, a_table, a_warehouse, dropped, gate, registered, the_warehouse

QUEUES = ("tabular_expiration", "tabular_purge")
ALL = TaskFilter(QUEUES, TASK_STATUSES)
MINUTE_MS = 60_000


@pytest.fixture
async def warehouse(catalog: Application) -> Warehouse:
    return await the_warehouse(catalog)


@pytest.fixture
async def other(catalog: Application, database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Another process on the same database."""
    async with opened_catalog(database, tmp_path / "warehouse") as opened:
        yield opened


async def listed(catalog: Application, warehouse: Warehouse, wanted: TaskFilter = ALL) -> list[FoundTask]:
    return (await list_tasks(catalog.queries, context("listTasks"), warehouse.id, wanted, None, 100)).items


async def only_task(catalog: Application, warehouse: Warehouse) -> FoundTask:
    (found,) = await listed(catalog, warehouse)
    return found


async def control(catalog: Application, warehouse: Warehouse, action: Action, task_id: UUID, at_ms: int | None = None) -> None:
    await control_tasks(catalog.commands, context("controlTasks"), warehouse, ControlTasks(action, (task_id,), at_ms))


async def started(monkeypatch: pytest.MonkeyPatch, catalog: Application, at: str = "read") -> tuple[Point, "asyncio.Task[int]"]:
    """A round of the purge that has begun an attempt, and the point of gate() where it waits."""
    point = Point()
    gate(monkeypatch, catalog.commands, **{at: point})
    purge = asyncio.create_task(catalog.purge.run_once())
    async with asyncio.timeout(SECONDS_MAX):
        await point.reached.wait()
    return point, purge


async def to_be_purged(catalog: Application, warehouse: Warehouse, folder: Path, name: str = "t") -> UUID:
    """Drops a table with its files. Returns the id of the purge."""
    await a_table(catalog, warehouse, name, folder)
    await dropped(catalog, warehouse, name)
    return (await listed(catalog, warehouse))[0].task.task_id


async def soft_deleting(catalog: Application, warehouse: Warehouse, seconds: int = 3_600) -> Warehouse:
    command = UpdateWarehouseDeleteProfile(DeleteProfile(seconds))
    await change_warehouse(catalog.commands, context("updateWarehouseDeleteProfile"), warehouse, command)
    return await the_warehouse(catalog)


def events(database: str, topic: str) -> list[dict[str, Any]]:
    with psycopg.connect(database) as connection:
        query = "select convert_from(state, 'utf8')::jsonb from icecore.events where topic = %s order by notification_id"
        return [state for (state,) in connection.execute(query, (topic,)).fetchall()]


def failing(monkeypatch: pytest.MonkeyPatch, catalog: Application) -> None:
    """The store refuses every deletion."""

    async def refuse() -> None:
        raise ServiceUnavailable("The object store does not respond")

    gate(monkeypatch, catalog.commands, read=refuse)


def pauses_end_between_runs(monkeypatch: pytest.MonkeyPatch, catalog: Application) -> Callable[[], None]:
    """Sets the clocks of the job. The function that it returns puts them forward by the longest pause."""
    seconds = 0.0

    def pass_time() -> None:
        nonlocal seconds
        seconds += PAUSE_SECONDS_MAX

    monkeypatch.setattr("icecore.commands.execution.retry_pauses.time", SimpleNamespace(monotonic=lambda: seconds))
    catalog.commands.now_ms = lambda: now_ms() + int(seconds * 1_000)
    return pass_time


async def test_a_purge_is_a_task_from_the_drop_to_its_end(catalog: Application, warehouse: Warehouse, tmp_path: Path) -> None:
    """Its id is that of the drop."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    found = await only_task(catalog, warehouse)
    assert ("tabular_purge", "SCHEDULED", 0, ("a", "t")) == (found.task.queue, found.status, found.attempt, found.task.path)
    assert found.task.created_at == found.scheduled_for
    with psycopg.connect(catalog.dsn) as connection:
        assert ("table.dropped.v1",) == connection.execute("select topic from icecore.events where event_id = %s", (task_id,)).fetchone()
    assert 1 == await catalog.purge.run_once()
    found = await only_task(catalog, warehouse)
    assert ("SUCCESS", 1, task_id) == (found.status, found.attempt, found.task.task_id)
    assert found.task.ended_at is not None


async def test_an_expiry_is_the_parent_of_the_purge_after_it(catalog: Application, warehouse: Warehouse, tmp_path: Path) -> None:
    """Its moment is that of the drop, and nothing but an undrop stops it."""
    warehouse = await soft_deleting(catalog, warehouse, 3)
    expiry = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    found = await only_task(catalog, warehouse)
    assert ("tabular_expiration", "SCHEDULED") == (found.task.queue, found.status)
    assert 3 == pytest.approx((found.scheduled_for - found.task.created_at).total_seconds(), abs=2)
    actions: tuple[Action, ...] = ("stop", "cancel", "run-now", "run-at")
    for action in actions:
        with pytest.raises(ExpirationFixed, match="undrop it instead"):
            await control(catalog, warehouse, action, expiry, now_ms() + MINUTE_MS if action == "run-at" else None)
    await asyncio.sleep(3.1)
    assert 1 == await catalog.soft_deletion.run_once()
    purge, expired = await listed(catalog, warehouse)
    assert ("SUCCESS", expiry) == (expired.status, expired.task.task_id)
    assert ("tabular_purge", "SCHEDULED", expiry) == (purge.task.queue, purge.status, purge.task.parent_task_id)


async def test_a_cancelled_purge_keeps_the_files_and_frees_the_location(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, database: str
) -> None:
    """The table can be registered again."""
    folder = tmp_path / "warehouse" / "t"
    location = await a_table(catalog, warehouse, "t", folder)
    await dropped(catalog, warehouse, "t")
    task_id, before = (await only_task(catalog, warehouse)).task.task_id, files(folder)
    await control(catalog, warehouse, "cancel", task_id)
    assert 0 == await catalog.purge.run_once()
    assert ("CANCELLED", before) == ((await only_task(catalog, warehouse)).status, files(folder))
    await registered(catalog, warehouse, location)
    for action in ("cancel", "stop", "run-now"):
        with pytest.raises(TaskFinished, match="was cancelled"):
            await control(catalog, warehouse, action, task_id)  # type: ignore[arg-type]
    await rebuild(database)
    assert (await verify(database)).ok
    assert "CANCELLED" == (await only_task(catalog, warehouse)).status


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_the_log_decides_between_a_cancellation_and_a_deletion(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled_first: bool
) -> None:
    """Before the first file is deleted, a cancellation wins; after that it is refused. The files are there, or are gone, as a whole."""
    folder = tmp_path / "warehouse" / "t"
    task_id = await to_be_purged(catalog, warehouse, folder)
    before = files(folder)
    point, purge = await started(monkeypatch, catalog, "read" if cancelled_first else "held")
    if cancelled_first:
        await control(other, warehouse, "cancel", task_id)
        point.let_go.set()
        assert (0, before) == (await purge, files(folder))
        assert "CANCELLED" == (await only_task(other, warehouse)).status
    else:
        with pytest.raises(PurgeBegun, match="cannot be cancelled"):
            await control(other, warehouse, "cancel", task_id)
        point.let_go.set()
        assert (1, "SUCCESS") == (await purge, (await only_task(other, warehouse)).status)
    assert (await verify(catalog.dsn)).ok


async def test_a_purge_waits_for_the_moment_it_is_scheduled_for(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path
) -> None:
    """In every process, until the moment has come or is moved."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    later = now_ms() + 10 * MINUTE_MS
    await control(catalog, warehouse, "run-at", task_id, later)
    assert [0, 0] == [await each.purge.run_once() for each in (catalog, other)]
    assert later == int((await only_task(other, warehouse)).scheduled_for.timestamp() * 1_000)
    other.commands.now_ms = lambda: later
    assert 1 == await other.purge.run_once()


async def test_run_now_ends_the_wait_of_a_failed_purge(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempt is recorded, with its error and the next moment."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    monkeypatch.setattr("icecore.commands.execution.retry_pauses.PAUSE_SECONDS_MIN", 300.0)
    with monkeypatch.context() as patched:
        failing(patched, catalog)
        assert 0 == await catalog.purge.run_once()
        found, attempts = await load_task(catalog.queries, context("getTaskDetails"), warehouse.id, task_id, 5)
    assert ("SCHEDULED", 1) == (found.status, found.attempt)
    assert [(1, "The object store does not respond")] == [(each.attempt, each.error) for each in attempts]
    assert 250 < (found.scheduled_for - found.task.created_at).total_seconds()
    assert 0 == await catalog.purge.run_once()
    await control(catalog, warehouse, "run-now", task_id)
    assert 1 == await catalog.purge.run_once()


async def test_failures_are_recorded_ever_more_rarely(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """The attempts 1, 2, 4 and 8 of ten; a process that leads next goes on counting."""
    await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    passed = pauses_end_between_runs(monkeypatch, catalog)
    failing(monkeypatch, catalog)
    again = PurgeJob(catalog.commands)
    for job in (*[catalog.purge] * 5, *[again] * 6):
        passed()
        await job.run_once()
    # Of the fifth attempt, which was not recorded, the next process knows nothing.
    assert [1, 2, 4, 8] == [each["attempt"] for each in events(database, "task.attempt-failed.v1")]
    assert (await verify(database)).ok


async def test_failures_of_an_expiry_are_counted_on_by_the_next_process(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """The attempts 1, 2, 4 and 8 of ten, as those of a purge: an operator sees how long it has been failing."""
    warehouse = await soft_deleting(catalog, warehouse)
    with clocks_behind(catalog.commands, 2 * 3_600_000):
        expiry = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    passed = pauses_end_between_runs(monkeypatch, catalog)

    def refuse(table_id: UUID, **options: bool) -> Any:
        raise ServiceUnavailable("The table cannot be read")

    monkeypatch.setattr(catalog.commands.resolver, "table_by_id", refuse)
    again = ExpireSoftDeletedJob(catalog.commands)
    for job in (*[catalog.soft_deletion] * 5, *[again] * 6):
        passed()
        assert 0 == await job.run_once()
    assert [1, 2, 4, 8] == [each["attempt"] for each in events(database, "task.attempt-failed.v1")]
    found = await only_task(catalog, warehouse)
    assert (expiry, "tabular_expiration", "SCHEDULED") == (found.task.task_id, found.task.queue, found.status)
    assert (await verify(database)).ok


async def test_a_stopped_attempt_is_retried(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """While it runs, every process sees that, and another one can stop it."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    with monkeypatch.context() as patched:
        # It follows the control requests from its second round on.
        catalog.purge._followed = 0
        _, purge = await started(patched, catalog)
        running = await only_task(other, warehouse)
        assert ("RUNNING", 1) == (running.status, running.attempt)
        assert running.run is not None
        assert [task_id] == [each.task.task_id for each in await listed(other, warehouse, TaskFilter(QUEUES, ["RUNNING", "STOPPING"]))]
        assert [] == await listed(other, warehouse, TaskFilter(QUEUES, ["SCHEDULED"]))
        await control(other, warehouse, "stop", task_id)
        assert 0 == await purge
    assert ("SCHEDULED", 1) == ((await only_task(other, warehouse)).status, len(events(database, "task.stopped.v1")))
    # Not running, so there is nothing to stop.
    await control(other, warehouse, "stop", task_id)
    assert 1 == len(events(database, "task.stopped.v1"))
    await control(other, warehouse, "run-now", task_id)
    assert 1 == await catalog.purge.run_once()


async def test_an_attempt_of_a_leader_that_has_ended_does_not_run(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is still there, but the lock is not held. The next leader purges."""
    await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    _, purge = await started(monkeypatch, catalog)
    assert "RUNNING" == (await only_task(other, warehouse)).status
    assert 0 == await other.purge.run_once(), "one leads"
    purge.cancel()
    await asyncio.gather(purge, return_exceptions=True)
    assert "SCHEDULED" == (await only_task(other, warehouse)).status
    assert 1 == await other.purge.run_once()


async def test_an_attempt_without_progress_is_ended(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """After the time of the warehouse's queue."""
    await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    monkeypatch.setattr("icecore.domain.task.HEARTBEAT_SECONDS_MIN", 1)
    await change_warehouse(catalog.commands, context("setTaskQueueConfig"), warehouse, SetTaskQueueConfig("tabular_purge", 1))
    gate(monkeypatch, catalog.commands, read=Point())
    assert 0 == await catalog.purge.run_once()
    assert ["The attempt had no heartbeat for 1 seconds"] == [each["error"] for each in events(database, "task.attempt-failed.v1")]


async def test_an_unknown_task_is_no_task(catalog: Application, warehouse: Warehouse) -> None:
    for refused in (control(catalog, warehouse, "cancel", uuid4()), load_task(catalog.queries, context("x"), warehouse.id, uuid4(), 5)):
        with pytest.raises(NoSuchTask):
            await refused


async def test_all_tasks_are_controlled_or_none(catalog: Application, warehouse: Warehouse, tmp_path: Path) -> None:
    tasks = [await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / name, name) for name in ("t", "u")]
    with pytest.raises(NoSuchTask):
        await control_tasks(catalog.commands, context("controlTasks"), warehouse, ControlTasks("cancel", (*tasks, uuid4())))
    assert ["SCHEDULED"] * 2 == [each.status for each in await listed(catalog, warehouse)]
    await control_tasks(catalog.commands, context("controlTasks"), warehouse, ControlTasks("cancel", tuple(tasks)))
    assert ["CANCELLED"] * 2 == [each.status for each in await listed(catalog, warehouse)]


async def test_a_task_of_another_warehouse_is_no_task(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither loaded nor controlled there, nor listed while it runs."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    sea = await a_warehouse(catalog, "sea", tmp_path / "sea")
    with pytest.raises(NoSuchTask):
        await control(catalog, sea, "run-now", task_id)
    with pytest.raises(NoSuchTask):
        await load_task(catalog.queries, context("getTaskDetails"), sea.id, task_id, 5)
    point, purge = await started(monkeypatch, catalog)
    assert ["RUNNING"] == [each.status for each in await listed(catalog, warehouse)]
    assert [] == await listed(catalog, sea)
    point.let_go.set()
    assert 1 == await purge


async def test_a_purge_that_runs_is_listed_in_its_queue_only(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    point, purge = await started(monkeypatch, catalog)
    found = {queue: len(await listed(catalog, warehouse, TaskFilter((queue,), TASK_STATUSES))) for queue in QUEUES}
    assert {"tabular_expiration": 0, "tabular_purge": 1} == found
    point.let_go.set()
    assert 1 == await purge


async def test_tasks_are_listed_by_the_moment_of_their_creation(catalog: Application, warehouse: Warehouse, tmp_path: Path) -> None:
    """Both bounds are inclusive."""
    for name in ("t", "u", "v"):
        await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / name, name)
    _, at, last = [each.task.created_at for each in reversed(await listed(catalog, warehouse))]

    async def names(**bounds: Any) -> list[str]:
        return [each.task.name for each in reversed(await listed(catalog, warehouse, ALL._replace(**bounds)))]

    assert ["u", "v"] == await names(created_after=at)
    assert ["t", "u"] == await names(created_before=at)
    assert ["u"] == await names(created_after=at, created_before=at)
    assert [] == await names(created_after=last + timedelta(microseconds=1))


async def test_a_purge_that_is_postponed_before_its_first_deletion_waits(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that runs deletes nothing, so it can be cancelled until then."""
    folder = tmp_path / "warehouse" / "t"
    task_id = await to_be_purged(catalog, warehouse, folder)
    before = files(folder)
    point, purge = await started(monkeypatch, catalog)
    await control(other, warehouse, "run-at", task_id, now_ms() + 10 * MINUTE_MS)
    point.let_go.set()
    assert (0, before) == (await purge, files(folder))
    await control(other, warehouse, "cancel", task_id)


async def test_a_control_request_that_comes_between_does_not_lose_a_failure(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """It is recorded on the newest state of the task, whose moment stays."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    later, submit, requests = now_ms() + 10 * MINUTE_MS, catalog.commands.committer.submit, 0

    async def late(append_request: Any) -> Any:
        nonlocal requests
        requests += 1
        if requests == 1:
            await control(other, warehouse, "run-at", task_id, later)
        return await submit(append_request)

    failing(monkeypatch, catalog)
    monkeypatch.setattr(catalog.commands.committer, "submit", late)
    assert 0 == await catalog.purge.run_once()
    assert [(1, later)] == [(each["attempt"], each["retry-at-ms"]) for each in events(database, "task.attempt-failed.v1")]


@pytest.mark.parametrize("before_it_is_decided", [True, False])
async def test_nothing_is_recorded_of_a_task_that_was_cancelled(
    catalog: Application,
    other: Application,
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    before_it_is_decided: bool,
) -> None:
    """Whether its attempt fails after the cancellation, or before it and is recorded too late."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    submit, submitted = catalog.commands.committer.submit, 0

    async def cancel_and_fail() -> None:
        await control(other, warehouse, "cancel", task_id)
        raise ServiceUnavailable("The object store does not respond")

    async def late(append_request: Any) -> Any:
        nonlocal submitted
        submitted += 1
        if submitted == 1:
            await control(other, warehouse, "cancel", task_id)
        return await submit(append_request)

    if before_it_is_decided:
        gate(monkeypatch, catalog.commands, read=cancel_and_fail)
    else:
        failing(monkeypatch, catalog)
        monkeypatch.setattr(catalog.commands.committer, "submit", late)
    assert 0 == await catalog.purge.run_once()
    assert "CANCELLED" == (await only_task(other, warehouse)).status
    assert [] == events(database, "task.attempt-failed.v1")
    assert (not before_it_is_decided) == bool(submitted)


async def test_the_last_attempts_that_failed_are_loaded_newest_first(
    catalog: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    passed = pauses_end_between_runs(monkeypatch, catalog)
    failing(monkeypatch, catalog)
    for _ in range(4):
        passed()
        await catalog.purge.run_once()
    _, attempts = await load_task(catalog.queries, context("getTaskDetails"), warehouse.id, task_id, 2)
    assert [4, 2] == [each.attempt for each in attempts]


async def test_an_attempt_after_a_stopped_one_runs(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was for the attempt before."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    opened = catalog.commands.store
    catalog.purge._followed = 0
    for attempt in (1, 2):
        monkeypatch.setattr(catalog.commands, "store", opened)
        point, purge = await started(monkeypatch, catalog)
        assert "RUNNING" == (await only_task(other, warehouse)).status
        if attempt == 1:
            await control(other, warehouse, "stop", task_id)
            assert 0 == await purge
            await control(other, warehouse, "run-now", task_id)
    point.let_go.set()
    assert 1 == await purge


async def test_the_maintenance_of_a_warehouse_is_no_failed_attempt(
    catalog: Application, other: Application, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """A purge that it interrupts goes on afterwards, and nothing is recorded of it."""
    await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    point, purge = await started(monkeypatch, catalog)
    await change_warehouse(other.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(True))
    point.let_go.set()
    assert 0 == await purge
    assert [] == events(database, "task.attempt-failed.v1")


@pytest.mark.parametrize("action", ["run-at", "stop"])
async def test_a_task_that_ends_before_the_request_is_appended_is_not_changed(
    catalog: Application,
    other: Application,
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    action: Any,
) -> None:
    """The purge is cancelled after the request was decided."""
    task_id = await to_be_purged(catalog, warehouse, tmp_path / "warehouse" / "t")
    point, purge = await started(monkeypatch, catalog)
    before_append(monkeypatch, catalog, lambda: control(other, warehouse, "cancel", task_id))
    with pytest.raises(TaskFinished):
        await control(catalog, warehouse, action, task_id, now_ms() + 10 * MINUTE_MS if action == "run-at" else None)
    assert [] == [*events(database, "task.scheduled.v1"), *events(database, "task.stopped.v1")]
    point.let_go.set()
    assert 0 == await purge
