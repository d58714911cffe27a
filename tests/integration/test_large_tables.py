"""Tables with many parts: slow work is done before or after the append, invisibly to readers."""

import asyncio
import itertools
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.approval.contract import Refuse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.execution.preloaded_parts import PARTS_APPENDED_MAX, preload_parts
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables import close_removed_parts
from icecore.commands.tables import register_table as registering
from icecore.commands.tables.close_removed_parts import ClosePartsJob
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.register_table import register_table
from icecore.compose import Application
from icecore.database.connections import Connection
from icecore.database.named_sql import named_sql
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, RegisterTable
from icecore.domain.errors import BadRequest, ChangeRefused, NoSuchTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.read_models.rows import PARTS_CLOSED_INLINE_MAX
from icecore.projections.part_tombstones import PartTombstone, close_parts
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.leftovers import nothing_left
from tests.integration.approval.judging import Judge, asking

SNAPSHOTS = PARTS_APPENDED_MAX  # and as many log entries
TABLE = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def catalog(database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """A catalog without cached states, with the namespace `a`."""
    async with opened_catalog(database, tmp_path / "warehouse", cache_bytes_max=0) as opened:
        await create_namespace(opened.commands, context("createNamespace"), await demo(opened), CreateNamespace(TABLE.namespace, {}))
        yield opened


async def demo(catalog: Application, past: str = "") -> Warehouse:
    return await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo{past}")


def metadata_file(directory: Path, folder: str = "large", snapshots: int = SNAPSHOTS) -> str:
    """A table's metadata file in the warehouse; the newest snapshot is on main."""
    location = directory / "warehouse" / folder
    now = time.time_ns() // 1_000_000
    taken = [
        {
            "snapshot-id": n,
            "sequence-number": n,
            "timestamp-ms": now - snapshots + n,
            "manifest-list": f"file://{location}/metadata/snap-{n}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        for n in range(1, snapshots + 1)
    ]
    document = {
        "format-version": 2,
        "table-uuid": "01990000-0000-7000-8000-000000000001",
        "location": f"file://{location}",
        "last-sequence-number": snapshots,
        "last-updated-ms": now,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": snapshots,
        "refs": {"main": {"snapshot-id": snapshots, "type": "branch"}},
        "snapshots": taken,
        "snapshot-log": [{"snapshot-id": each["snapshot-id"], "timestamp-ms": each["timestamp-ms"]} for each in taken],
        "metadata-log": [],
    }
    file = location / "metadata" / "00000-large.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(orjson.dumps(document))
    return f"file://{file}"


async def register(catalog: Application, location: str, name: str = "t", *, overwrite: bool = False) -> int:
    command = RegisterTable(TABLE.namespace, name, location, overwrite)
    return (await register_table(catalog.commands, context("registerTable"), await demo(catalog), command)).position


async def expire(catalog: Application, snapshot_ids: list[int]) -> int:
    update = {"action": "remove-snapshots", "snapshot-ids": snapshot_ids}
    command = CommitTable(TABLE, [], [update])
    return (await commit_table(catalog.commands, context("updateTable"), await demo(catalog), command)).position


async def append(catalog: Application, directory: Path, snapshot_id: int) -> int:
    """Returns the size of the response."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": snapshot_id - 1,
        "sequence-number": snapshot_id,
        "timestamp-ms": time.time_ns() // 1_000_000 + 1,
        "manifest-list": f"file://{directory}/warehouse/large/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    updates: list[Any] = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    response = await commit_table(catalog.commands, context("updateTable"), await demo(catalog), CommitTable(TABLE, [], updates))
    assert response.body is not None
    return len(response.body)


async def loaded(catalog: Application, past: str = "", snapshots: str = "all") -> dict[str, Any]:
    response = await load_table(catalog.queries, context("loadTable"), await demo(catalog, past), TABLE, snapshots)
    assert response.body is not None
    document: dict[str, Any] = orjson.loads(joined(response.body))["metadata"]
    return document


async def state_ordinals(catalog: Application) -> dict[str, list[int]]:
    """The ordinals of the state on which the next commit would be decided."""
    async with catalog.backends.connection() as connection:
        (table_id,) = (await (await connection.execute("select distinct table_id from icecore.tables")).fetchone()) or (None,)
    found = await catalog.commands.resolver.table_by_id(table_id).read()
    assert found is not None
    return {kind: [part.ordinal for part in parts] for kind, parts in found[0].document.parts.items()}


def ask(dsn: str, question: str) -> Any:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(question).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row[0]


def left_over(dsn: str) -> tuple[int, int, int]:
    """Staged tables, parts of tables without a head, tombstones."""
    orphans = "select count(*) from icecore.table_parts p where not exists (select from icecore.tables t where t.table_id = p.table_id)"
    counts = ("select count(*) from icecore.preloaded_parts", orphans, "select count(*) from icecore.part_tombstones")
    staged, parts, tombstones = (ask(dsn, question) for question in counts)
    return staged, parts, tombstones


# Registration


async def test_a_large_registration_does_not_write_its_parts_under_the_append_lock(catalog: Application, tmp_path: Path) -> None:
    """The parts are written in other transactions than the head; those of a small table in the same one."""
    in_append = "select count(*) from icecore.table_parts p join icecore.tables t using (generation, table_id) where p.xmin = t.xmin"
    await register(catalog, metadata_file(tmp_path))
    assert 0 == ask(catalog.dsn, in_append)
    assert 2 * SNAPSHOTS + 4 == ask(catalog.dsn, "select count(*) from icecore.table_parts")
    await register(catalog, metadata_file(tmp_path, "small", 3), "small")
    assert 10 == ask(catalog.dsn, in_append)
    assert (0, 0, 0) == left_over(catalog.dsn)
    assert list(range(1, SNAPSHOTS + 1)) == [snapshot["snapshot-id"] for snapshot in (await loaded(catalog))["snapshots"]]
    assert [] == (await verify(catalog.dsn)).differences


async def test_a_large_registration_that_is_refused_leaves_no_parts(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its location is claimed while the parts are written, which only append detects."""
    location = metadata_file(tmp_path)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    first = CreateTable(TABLE.namespace, "first", f"file://{tmp_path}/warehouse/large", schema, None, None, {}, stage_create=False)
    parts_preloaded = []

    async def stage_and_lose(connections: Any, append_request: AppendRequest, table_id: Any) -> None:
        await preload_parts(connections, append_request, table_id)
        parts_preloaded.append(ask(catalog.dsn, "select count(*) from icecore.table_parts"))
        await create_table(catalog.commands, context("createTable"), await demo(catalog), first)

    monkeypatch.setattr(registering, "preload_parts", stage_and_lose)
    with pytest.raises(BadRequest, match="Location is already taken"):
        await register(catalog, location)
    assert [2 * SNAPSHOTS + 4] == parts_preloaded
    assert (0, 0, 0) == left_over(catalog.dsn)
    assert 1 == ask(catalog.dsn, "select count(distinct table_id) from icecore.table_parts")
    assert [] == (await verify(catalog.dsn)).differences


async def test_a_large_registration_that_a_hook_refuses_leaves_no_parts(catalog: Application, tmp_path: Path) -> None:
    """The parts exist when the hook is asked."""
    judge, parts_preloaded = Judge(), []

    def refuse(_: object) -> Refuse:
        parts_preloaded.append(ask(catalog.dsn, "select count(*) from icecore.table_parts"))
        return Refuse("not here")

    judge.say = refuse
    asking(judge)(catalog)
    with pytest.raises(ChangeRefused):
        await register(catalog, metadata_file(tmp_path))
    assert [2 * SNAPSHOTS + 4] == parts_preloaded
    assert (0, 0, 0) == left_over(catalog.dsn)
    assert 0 == ask(catalog.dsn, "select count(*) from icecore.table_parts")


HALF_OF_THE_JOB = """
with abandoned as (update icecore.preloaded_parts set abandoned = true)
delete from icecore.table_parts p where not exists (select from icecore.tables t where t.table_id = p.table_id) and p.ordinal < 10
returning 1
"""


@pytest.mark.parametrize("meanwhile", ["rebuild", "job", "half of the job"])
async def test_what_was_staged_and_is_no_longer_good_is_staged_again(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Another generation serves, or the job has abandoned and deleted some parts: append reports it, and the command is decided again."""
    outcomes = []
    submit_batch = catalog.commands.committer.submit_batch

    async def stage_and_lose(connections: Any, append_request: AppendRequest, table_id: Any) -> None:
        await preload_parts(connections, append_request, table_id)
        if outcomes:
            return
        if meanwhile == "rebuild":
            await rebuild(catalog.dsn)
        elif meanwhile == "job":
            await catalog.parts.run_once(preloaded_seconds_max=0)
        else:
            assert 1 == ask(catalog.dsn, HALF_OF_THE_JOB)

    async def noted(append_requests: Any) -> Any:
        results = await submit_batch(append_requests)
        outcomes.extend(result.outcome for result in results)
        return results

    monkeypatch.setattr(registering, "preload_parts", stage_and_lose)
    monkeypatch.setattr(catalog.commands.committer, "submit_batch", noted)
    await register(catalog, metadata_file(tmp_path))
    assert ["generation" if meanwhile == "rebuild" else "preloaded", "appended"] == outcomes
    await catalog.parts.run_once(preloaded_seconds_max=0)
    assert (0, 0, 0) == left_over(catalog.dsn)
    assert 1 == ask(catalog.dsn, "select count(distinct table_id) from icecore.table_parts")
    assert [] == (await verify(catalog.dsn)).differences
    assert SNAPSHOTS == len((await loaded(catalog))["snapshots"])


async def test_nothing_of_a_registration_stays_in_memory_behind_it(catalog: Application, tmp_path: Path) -> None:
    """Not even until the next command. An append request refers to its document before and after."""
    location = metadata_file(tmp_path)
    with nothing_left():
        await register(catalog, location)
        await asyncio.sleep(0)


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.integration import test_large_tables as large

async def hang(append_requests):
    print("staged", flush=True)
    await asyncio.sleep(60)

async def main():
    async with large.opened_catalog(sys.argv[1], Path(sys.argv[2])) as catalog:
        catalog.commands.committer.submit_batch = hang
        await large.register(catalog, sys.argv[3])

asyncio.run(main())
"""


async def test_a_crash_between_staging_and_append_leaves_what_the_job_removes(catalog: Application, tmp_path: Path) -> None:
    """kill -9: the parts are invisible, verification ignores them, and the job deletes them after a time."""
    location = metadata_file(tmp_path)
    command = [sys.executable, "-c", KILLED, catalog.dsn, str(tmp_path / "warehouse"), location]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert b"staged\n" == await process.stdout.readline()
    process.kill()
    await process.wait()
    assert (1, 2 * SNAPSHOTS + 4, 0) == left_over(catalog.dsn)
    assert [] == (await verify(catalog.dsn)).differences
    with pytest.raises(NoSuchTable):
        await loaded(catalog)
    await catalog.parts.run_once()
    assert 1 == left_over(catalog.dsn)[0], "it may still be on its way"
    await register(catalog, location)
    await catalog.parts.run_once(preloaded_seconds_max=0)
    assert (0, 0, 0) == left_over(catalog.dsn)
    assert [] == (await verify(catalog.dsn)).differences
    assert SNAPSHOTS == len((await loaded(catalog))["snapshots"])


async def test_parts_that_no_writer_preloaded_are_named(catalog: Application, tmp_path: Path) -> None:
    """Parts without a stream or registration, and a registration that would hide a live table's parts."""
    await register(catalog, metadata_file(tmp_path, "small", 3))
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        connection.execute("insert into icecore.table_parts values (1, gen_random_uuid(), 1, 0, 1, null, null, '{}')")
        assert ["table_parts"] == [difference.table for difference in (await verify(catalog.dsn)).differences]
        connection.execute("insert into icecore.preloaded_parts select table_id, 1, now() from icecore.table_parts where body = '{}'")
        assert [] == (await verify(catalog.dsn)).differences
        connection.execute("insert into icecore.preloaded_parts select table_id, 1, now() from icecore.tables")
        assert {"preloaded_parts"} == {difference.table for difference in (await verify(catalog.dsn)).differences}


# Commits


async def test_a_commit_joins_and_copies_none_of_a_large_document(database: str, tmp_path: Path) -> None:
    """It allocates less than a quarter of the size of the file or of the response, buffers included."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await create_namespace(catalog.commands, context("createNamespace"), await demo(catalog), CreateNamespace(TABLE.namespace, {}))
        await register(catalog, metadata_file(tmp_path, snapshots=10_000))
        # The first is decided on the state that was read, the next ones on the cached one.
        await append(catalog, tmp_path, 10_001)
        tracemalloc.start()
        try:
            size = await append(catalog, tmp_path, 10_002)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert 2_000_000 < size
    assert taken < size / 4, (taken, size)


# Removal


async def test_a_bulk_removal_closes_no_part_under_the_append_lock_and_reads_as_if_it_had(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now, as of every position, and for the next commit: the results are the same before, during and after the job."""
    first = await register(catalog, metadata_file(tmp_path))
    odd = [n for n in range(1, SNAPSHOTS) if n % 2]
    second = await expire(catalog, odd)
    third = await expire(catalog, [n for n in range(1, SNAPSHOTS) if n % 2 == 0])
    assert 0 == ask(catalog.dsn, "select count(*) from icecore.table_parts where valid_to is not null and kind = 4")
    assert (0, 0) == left_over(catalog.dsn)[:2]
    assert 0 < left_over(catalog.dsn)[2]

    async def check() -> None:
        assert [SNAPSHOTS] == [each["snapshot-id"] for each in (await loaded(catalog))["snapshots"]]
        assert [SNAPSHOTS] == [each["snapshot-id"] for each in (await loaded(catalog, snapshots="refs"))["snapshots"]]
        assert SNAPSHOTS == len((await loaded(catalog, f"@{first}"))["snapshots"])
        assert 1 == len((await loaded(catalog, f"@{first}", "refs"))["snapshots"])
        assert SNAPSHOTS - len(odd) == len((await loaded(catalog, f"@{second}"))["snapshots"])
        assert 1 == len((await loaded(catalog, f"@{third}"))["snapshots"])
        assert {"snapshots": 1, "refs": 1} == {kind: len((await state_ordinals(catalog))[kind]) for kind in ("snapshots", "refs")}
        assert [] == (await verify(catalog.dsn)).differences

    steps = 0
    await check()
    job = catalog.parts

    async def close_some_and_check(connection: Connection, tombstone: PartTombstone, after: int, limit: int) -> tuple[int, int]:
        nonlocal steps
        some = await close_parts(connection, tombstone, after, limit)
        steps += 1
        if steps % 3 == 1:
            await check()
        return some

    monkeypatch.setattr(close_removed_parts, "close_parts", close_some_and_check)
    while left_over(catalog.dsn)[2]:
        assert 0 < await job.run_once()
    assert steps > 3
    await check()
    assert SNAPSHOTS - 1 == ask(catalog.dsn, "select count(*) from icecore.table_parts where valid_to is not null and kind = 4")
    assert 0 == await job.run_once()


async def test_refs_that_went_in_bulk_hold_no_snapshot(catalog: Application, tmp_path: Path) -> None:
    """Loads of referenced snapshots must ignore tags that a tombstone closed."""
    await register(catalog, metadata_file(tmp_path, snapshots=2 * PARTS_CLOSED_INLINE_MAX))
    warehouse = await demo(catalog)
    names = {f"t{n}": n for n in range(1, PARTS_CLOSED_INLINE_MAX + 2)}
    tags = [{"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": n} for name, n in names.items()]
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], tags))
    assert len(names) + 1 == len((await loaded(catalog, snapshots="refs"))["snapshots"])
    gone = [{"action": "remove-snapshot-ref", "ref-name": name} for name in names]
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], gone))
    for tombstones in (1, 0):
        assert tombstones == left_over(catalog.dsn)[2]
        assert 1 == len((await loaded(catalog, snapshots="refs"))["snapshots"])
        assert ["main"] == list((await loaded(catalog))["refs"])
        assert [] == (await verify(catalog.dsn)).differences
        await catalog.parts.run_once()


async def test_an_overwrite_of_a_large_table_reads_as_the_new_one_at_once(catalog: Application, tmp_path: Path) -> None:
    """Tombstones close its old parts, which are still visible as of earlier positions."""
    first = await register(catalog, metadata_file(tmp_path))
    await register(catalog, metadata_file(tmp_path, "other", 400), overwrite=True)
    for tombstones in (2, 0):  # Snapshots and log entries.
        assert tombstones == left_over(catalog.dsn)[2]
        assert 400 == len((await loaded(catalog))["snapshots"])
        assert SNAPSHOTS == len((await loaded(catalog, f"@{first}"))["snapshots"])
        assert [] == (await verify(catalog.dsn)).differences
        await catalog.parts.run_once()


async def test_few_parts_are_closed_with_their_commit(catalog: Application, tmp_path: Path) -> None:
    """Up to the limit there is no tombstone."""
    await register(catalog, metadata_file(tmp_path))
    gone = list(range(SNAPSHOTS - PARTS_CLOSED_INLINE_MAX, SNAPSHOTS))
    await expire(catalog, gone)
    assert 0 == ask(catalog.dsn, "select count(*) from icecore.part_tombstones where kind = 4")
    assert len(gone) == ask(catalog.dsn, "select count(*) from icecore.table_parts where valid_to is not null and kind = 4")


async def test_a_commit_before_the_job_is_decided_on_what_is_left(catalog: Application, tmp_path: Path) -> None:
    """In a process without cached states, and after a rebuild."""
    await register(catalog, metadata_file(tmp_path))
    await expire(catalog, list(range(1, SNAPSHOTS)))
    async with opened_catalog(catalog.dsn, tmp_path / "warehouse", cache_bytes_max=0) as other:
        update = {"action": "set-properties", "updates": {"k": "v"}}
        await commit_table(other.commands, context("updateTable"), await demo(other), CommitTable(TABLE, [], [update]))
    assert 0 < left_over(catalog.dsn)[2]
    assert [SNAPSHOTS] == [each["snapshot-id"] for each in (await loaded(catalog))["snapshots"]]
    await rebuild(catalog.dsn)
    assert (0, 0, 0) == left_over(catalog.dsn), "a rebuild closes the parts themselves"
    assert [SNAPSHOTS] == [each["snapshot-id"] for each in (await loaded(catalog))["snapshots"]]
    assert [] == (await verify(catalog.dsn)).differences


async def test_a_job_that_is_stopped_half_way_is_gone_on_with(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between two steps. While another process leads, it does nothing."""
    await register(catalog, metadata_file(tmp_path))
    await expire(catalog, list(range(1, SNAPSHOTS)))
    reached = asyncio.Event()
    job = ClosePartsJob(catalog.commands)

    async def close_some_then_hang(connection: Connection, tombstone: PartTombstone, after: int, limit: int) -> tuple[int, int]:
        some = await close_parts(connection, tombstone, after, limit)
        reached.set()
        await asyncio.sleep(60)
        return some

    with monkeypatch.context() as patched:
        patched.setattr(close_removed_parts, "close_parts", close_some_then_hang)
        job.start()
        await reached.wait()
        assert 0 == await catalog.parts.run_once(), "the other one leads"
        await job.close()
    assert 0 < left_over(catalog.dsn)[2]
    assert [] == (await verify(catalog.dsn)).differences
    async with asyncio.timeout(30):
        while left_over(catalog.dsn)[2]:
            await catalog.parts.run_once()
            await asyncio.sleep(0.05)
    assert [SNAPSHOTS] == [each["snapshot-id"] for each in (await loaded(catalog))["snapshots"]]
    assert [] == (await verify(catalog.dsn)).differences


async def test_a_round_ends_when_its_time_is_up(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next round continues. The clock advances two seconds at each reading."""
    await register(catalog, metadata_file(tmp_path))
    await expire(catalog, list(range(1, SNAPSHOTS)))
    seconds = itertools.count(1_000.0, 2.0)
    with monkeypatch.context() as patched:
        patched.setattr(close_removed_parts, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        patched.setattr(close_removed_parts, "_PAUSE_FACTOR", 0)
        closed = await catalog.parts.run_once()
    assert (close_removed_parts._PARTS_PER_STATEMENT, 2) == (closed, left_over(catalog.dsn)[2])
    assert 0 < await catalog.parts.run_once()
    assert 0 == left_over(catalog.dsn)[2]


async def test_parts_are_closed_by_their_places_whatever_the_planner_believes(catalog: Application, tmp_path: Path) -> None:
    """Statistics may be from when the table was small."""
    await register(catalog, metadata_file(tmp_path, "small", 3), "small")
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        connection.execute("alter table icecore.table_parts set (autovacuum_enabled = false)")
        connection.execute("analyze icecore.table_parts, icecore.part_tombstones")
    await register(catalog, metadata_file(tmp_path))
    await expire(catalog, list(range(1, SNAPSHOTS)))
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        statement = named_sql("icecore.projections", "part_tombstones.sql")["close"]
        row = connection.execute("select generation, table_id, kind, valid_to from icecore.part_tombstones limit 1").fetchone()
        assert row is not None
        parameters = dict(zip(("generation", "table_id", "kind", "valid_to"), row, strict=True)) | {"after": -1, "limit": 500}
        explained = connection.execute(f"explain (format json) {statement}", parameters).fetchone()  # type: ignore[arg-type]
    assert explained is not None
    assert ["Tid Scan"] == how_rows_are_found(explained[0][0]["Plan"])


def how_rows_are_found(plan: dict[str, Any]) -> list[str]:
    """The plan nodes that find the rows to update."""
    children = plan.get("Plans", [])
    below = [found for child in children for found in how_rows_are_found(child)]
    if plan["Node Type"] == "ModifyTable":
        below += [child["Node Type"] for child in children if child["Parent Relationship"] == "Outer"]
    return below
