"""`icecore.append`, the only way to write the log, with the committer on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import AsyncConnection
from uuid_utils.compat import uuid7

from icecore.access.request_context import Principal, RequestContext
from icecore.commands.execution import committer as committing
from icecore.commands.execution.append_request import AppendRequest, AppendResult, IdempotencyRecord
from icecore.commands.execution.committer import APPEND_COMMANDS_MAX, Committer
from icecore.database import connection as connection_module
from icecore.database.advisory_locks import AdvisoryLock
from icecore.database.connection import connect
from icecore.database.write_refusal import was_rolled_back
from icecore.domain.errors import CommitStateUnknown, InternalError, ServiceUnavailable
from icecore.domain.events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespacePropertiesChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    ViewCreated,
    WarehouseCreated,
)
from icecore.domain.metadata.create import new_table_metadata
from icecore.domain.namespace import NamespaceState
from icecore.domain.recorded import RecordedEvent, chain_hash
from icecore.domain.table import TableState
from icecore.log.follow import read_events
from icecore.projections.verify import verify
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.command_runs import SCHEMA
from tests.fixtures.cutting_proxy import CuttingProxy

WAREHOUSE_ID = uuid7()


@pytest.fixture
async def committer(database: str) -> AsyncIterator[Committer]:
    """A committer on a fresh database."""
    opened = Committer(database)
    opened.start()
    yield opened
    await opened.close()


def creation(name: str, parent_id: UUID = WAREHOUSE_ID) -> NamespaceCreated:
    """With a location by its name and parent."""
    location = f"file:///warehouse/{parent_id}/{name}"
    return NamespaceCreated(parent_id, name, name, f"local|{location}/", {"location": location})


def namespace(name: str, parent_id: UUID = WAREHOUSE_ID, given: RequestContext | None = None) -> tuple[AppendRequest, NamespaceState]:
    """A command that creates a namespace, and what it leaves."""
    append_request = AppendRequest(given or context("createNamespace"))
    state = append_request.add(uuid7(), WAREHOUSE_ID, None, [creation(name, parent_id)])
    assert isinstance(state, NamespaceState)
    return append_request, state


def changed(state: NamespaceState, generation: int | None = None, **updates: str) -> tuple[AppendRequest, NamespaceState]:
    """A command that changes a namespace's properties, and what it leaves."""
    append_request = AppendRequest(context("updateProperties"))
    after = append_request.add(state.id, WAREHOUSE_ID, state, [NamespacePropertiesChanged(updates, [])], generation)
    assert isinstance(after, NamespaceState)
    return append_request, after


def table(name: str, location_key: str | None = None, parent_id: UUID = WAREHOUSE_ID) -> tuple[AppendRequest, TableState]:
    """A command that creates a table, which claims `location_key` (or a new location)."""
    table_id = uuid7()
    location = f"file:///warehouse/{table_id}"
    metadata = new_table_metadata(
        table_uuid=str(table_id), location=location, schema=SCHEMA, partition_spec=None, write_order=None, properties={}, now_ms=1
    )
    append_request = AppendRequest(context("createTable"))
    key = location_key or f"file|{location}/"
    event = TableCreated(parent_id, name, name, key, f"{location}/metadata/0.json", metadata, False)
    state = append_request.add(table_id, WAREHOUSE_ID, None, [event])
    assert isinstance(state, TableState)
    return append_request, state


async def log_of(database: str) -> list[RecordedEvent]:
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        return await read_events(connection, 0, 100_000)


async def sound(database: str) -> None:
    """Whatever happened, the log is dense and chained, and every row, claim and command agrees with it."""
    assert [] == (await verify(database)).differences


# Order


async def test_positions_are_dense_and_in_the_order_of_commits(database: str) -> None:
    """Two processes' committers with many waiting commands: a subscriber that reads after its last position misses nothing."""
    commands = 400
    committers = [Committer(database), Committer(database)]
    for each in committers:
        each.start()
    followed: list[int] = []

    async def follow() -> None:
        async with await AsyncConnection.connect(database, autocommit=True) as connection:
            while len(followed) < commands:
                events = await read_events(connection, followed[-1] if followed else 0, 50)
                followed.extend(event.position for event in events)
                await asyncio.sleep(0)

    following = asyncio.create_task(follow())
    results = await asyncio.gather(*(committers[n % 2].submit(namespace(f"n{n}")[0]) for n in range(commands)))
    async with asyncio.timeout(30):
        await following
    for each in committers:
        await each.close()
    assert {"appended"} == {result.outcome for result in results}
    assert list(range(1, commands + 1)) == followed
    assert list(range(1, commands + 1)) == sorted(result.position for result in results)
    await sound(database)


async def test_an_append_that_is_not_committed_keeps_the_next_one_waiting(database: str, committer: Committer) -> None:
    """While an append is uncommitted, later ones wait, so that positions become visible in order."""
    first, _ = namespace("first")
    second, _ = namespace("second")
    async with await AsyncConnection.connect(database) as held:
        await append(held, [first])
        waiting = asyncio.create_task(committer.submit(second))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        assert [] == await log_of(database)
        await held.commit()
        assert 2 == (await waiting).position
    assert [1, 2] == [event.position for event in await log_of(database)]


async def test_a_sequence_without_the_lock_loses_events_to_a_follower(database: str) -> None:
    """Negative control of the two above: positions from a sequence become visible out of order, and a subscriber misses one."""
    async with (
        await AsyncConnection.connect(database) as slow,
        await AsyncConnection.connect(database, autocommit=True) as quick,
    ):
        await quick.execute("create table naive (position bigserial primary key)")

        async def after(position: int) -> list[int]:
            found = await quick.execute("select position from naive where position > %s order by 1", (position,))
            return [number for (number,) in await found.fetchall()]

        await slow.execute("insert into naive default values")
        await quick.execute("insert into naive default values")
        followed = await after(0)
        await slow.commit()
        followed += await after(followed[-1])
    assert [2] == followed, "position 1 is never seen"


async def test_an_append_in_a_higher_isolation_level_is_refused(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not see the rows of the append it waited for. Here a pooler has dropped our connections' options."""
    monkeypatch.setattr(connection_module, "OPTIONS", "-c default_transaction_isolation=serializable")
    committer = Committer(database)
    committer.start()
    with pytest.raises(ServiceUnavailable, match="Postgres accepts no writes: its transactions are not read committed"):
        await committer.submit(namespace("first")[0])
    assert committer.writes_refused is not None
    await committer.close()
    assert [] == await log_of(database)


async def test_one_notify_per_batch(database: str, committer: Committer) -> None:
    """One notification for any number of commands, and none for a batch that appends nothing."""
    async with await AsyncConnection.connect(database, autocommit=True) as listening:
        await listening.execute("listen events")
        await committer.submit_batch([namespace(f"n{n}")[0] for n in range(5)])
        await committer.submit(namespace("n1")[0])
        heard = [notice.payload async for notice in listening.notifies(timeout=0.5)]
    assert ["5"] == heard


async def test_commands_gather_behind_a_batch_on_its_way(database: str, committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that arrive while the first call is in flight are sent together, although connections are free."""
    monkeypatch.setattr(committing, "LINGER_SECONDS_MAX", 600)
    async with await AsyncConnection.connect(database) as held:
        await append(held, [namespace("held")[0]])
        first, waited = asyncio.create_task(committer.submit(namespace("first")[0])), False
        # Taken into a batch once it does not wait any more.
        while not waited or committer.queued:
            waited = waited or committer.queued > 0
            await asyncio.sleep(0)
        others = []
        for n in range(9):
            others.append(asyncio.create_task(committer.submit(namespace(f"n{n}")[0])))
            await asyncio.sleep(0.001)
        await held.commit()
        await asyncio.gather(first, *others)
    assert {1: 1, 9: 1} == committer.metrics.append_sizes
    await sound(database)


async def test_a_slow_call_delays_the_next_batch_only_briefly(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a call is slow, the next batch uses another connection."""
    monkeypatch.setattr(committing, "LINGER_SECONDS_MAX", 0.001)
    sent = asyncio.Event()
    send = committing._send

    async def slow_to_send(*given: Any) -> list[AppendResult]:
        if not sent.is_set():
            sent.set()
            await asyncio.Event().wait()
        return await send(*given)

    monkeypatch.setattr(committing, "_send", slow_to_send)
    committer = Committer(database)
    committer.start()
    stuck = asyncio.create_task(committer.submit(namespace("stuck")[0]))
    await sent.wait()
    assert "appended" == (await committer.submit(namespace("next")[0])).outcome
    await committer.close()
    with pytest.raises(CommitStateUnknown):
        await stuck


async def test_a_batch_of_sixty_four_commands_is_one_transaction(database: str, committer: Committer) -> None:
    """The maximum of a batch. Each command has its own outcome."""
    batch = [namespace(f"n{n}")[0] for n in range(APPEND_COMMANDS_MAX)]
    async with await AsyncConnection.connect(database, autocommit=True) as listening:
        await listening.execute("listen events")
        results = await committer.submit_batch(batch)
        # A transaction that appends notifies once, at its commit, with its last position.
        heard = [notice.payload async for notice in listening.notifies(timeout=0.5)]
    assert [AppendResult("appended", n) for n in range(1, 65)] == results
    assert (["64"], {64: 1}) == (heard, committer.metrics.append_sizes)
    await sound(database)


# Heads


async def test_a_command_decided_on_another_head_is_refused(committer: Committer, database: str) -> None:
    """Equal version numbers do not matter, because event ids are compared."""
    created, state = namespace("a")
    await committer.submit(created)
    mine, _ = changed(state, owner="me")
    theirs, _ = changed(state, owner="them")
    assert "appended" == (await committer.submit(theirs)).outcome
    refused = await committer.submit(mine)
    assert ("version_conflict", str(state.id)) == (refused.outcome, refused.detail)
    assert 2 == len(await log_of(database))


async def test_a_stream_that_is_there_cannot_be_created_again(committer: Committer) -> None:
    """The expected head is that there is none."""
    created, state = namespace("a")
    await committer.submit(created)
    again = AppendRequest(context("createNamespace"))
    again.add(state.id, WAREHOUSE_ID, None, [creation("b")])
    assert "version_conflict" == (await committer.submit(again)).outcome


async def test_the_head_of_a_stream_that_is_only_read_is_compared(committer: Committer) -> None:
    """A command may depend on a stream that it does not write to."""
    created, state = namespace("a")
    await committer.submit(created)
    update, _ = changed(state, owner="them")
    await committer.submit(update)
    other, _ = namespace("b")
    other.depend_on(state)
    assert "version_conflict" == (await committer.submit(other)).outcome


async def test_a_batch_is_appended_in_order(committer: Committer) -> None:
    """Each is decided on the state after the previous one."""
    first, state = namespace("a")
    second, state = changed(state, x="1")
    third, state = changed(state, x="2")
    results = await committer.submit_batch([first, second, third])
    assert [("appended", 1), ("appended", 2), ("appended", 3)] == [(result.outcome, result.position) for result in results]


async def test_a_failed_predecessor_fails_only_its_successors(committer: Committer, database: str) -> None:
    """Their heads are not in the log. Positions and hashes continue as if the failed ones had not been tried."""
    taken, _ = namespace("taken")
    await committer.submit(taken)
    failing, state = namespace("taken")
    successor, _ = changed(state, x="1")
    bystander, _ = namespace("bystander")
    results = await committer.submit_batch([failing, successor, bystander])
    assert ["claim", "version_conflict", "appended"] == [result.outcome for result in results]
    assert 2 == results[2].position
    await sound(database)


async def test_a_replayed_predecessor_fails_its_successors(committer: Committer) -> None:
    """The predecessor is in the log under another command id, so the events that the successor depends on are not."""
    key = uuid4()
    keyed, _ = namespace("a", given=context("createNamespace", key=key, request_hash=b"h"))
    keyed.idempotency_record = IdempotencyRecord(200)
    await committer.submit(keyed)
    again, state = namespace("b", given=context("createNamespace", key=key, request_hash=b"h"))
    again.idempotency_record = IdempotencyRecord(200)
    successor, _ = changed(state, x="1")
    assert ["replayed", "version_conflict"] == [result.outcome for result in await committer.submit_batch([again, successor])]


async def test_an_error_after_events_were_inserted_takes_them_back(committer: Committer, database: str) -> None:
    """Each command has a subtransaction: its events, rows and claims are rolled back, the counters restored, and others are not
    affected.
    """
    before, _ = namespace("before")
    broken, _ = namespace("broken")
    broken.rows.names[0] = broken.rows.names[0]._replace(kind="no such kind")
    after, _ = namespace("after")
    results = await committer.submit_batch([before, broken, after])
    assert ["appended", "error", "appended"] == [result.outcome for result in results]
    assert "23514" in str(results[1].detail)
    assert [1, 2] == [event.position for event in await log_of(database)]
    await sound(database)


async def test_an_append_that_postgres_refuses_as_a_whole_has_no_effect(committer: Committer, database: str) -> None:
    """A bug that certainly changed nothing. Each command of the batch fails, and the next call succeeds."""
    first, state = namespace("a")
    second, _ = changed(state, x="1")
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("alter function icecore.append(jsonb, bytea[]) rename to append_away")
        with pytest.raises(InternalError, match="nothing was changed"):
            await committer.submit(first)
        assert ["error", "error"] == [result.outcome for result in await committer.submit_batch([first, second])]
        await connection.execute("alter function icecore.append_away(jsonb, bytea[]) rename to append")
    assert ["appended", "appended"] == [result.outcome for result in await committer.submit_batch([first, second])]


async def test_a_locked_table_fails_the_call_at_once_and_not_each_command(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by VACUUM FULL. The commands are not the cause, so the answer is 503; each would hold up all others for the lock timeout."""
    monkeypatch.setattr("icecore.commands.execution.committer.LOCK_TIMEOUT_SECONDS", 1)
    committer = Committer(database, connections=1)
    committer.start()
    try:
        async with await AsyncConnection.connect(database) as holder:
            await holder.execute("lock table icecore.namespaces in access exclusive mode")
            with pytest.raises(ServiceUnavailable, match="Postgres is busy"):
                await committer.submit_batch([namespace(name)[0] for name in "abcdef"])
        assert "appended" == (await committer.submit(namespace("a")[0])).outcome
    finally:
        await committer.close()
    await sound(database)


async def test_rows_of_another_generation_are_refused(committer: Committer, database: str) -> None:
    """A rebuild switched generations between the decision and the append. The command is decided again."""
    created, state = namespace("a")
    await committer.submit(created)
    refused = await committer.submit(changed(state, generation=7, x="1")[0])
    assert ("generation", "1") == (refused.outcome, refused.detail)
    assert "appended" == (await committer.submit(changed(state, generation=1, x="1")[0])).outcome


# Claims


async def test_of_twenty_creators_of_one_name_one_wins(database: str) -> None:
    """From two processes, together with twenty commands for different names."""
    committers = [Committer(database), Committer(database)]
    for each in committers:
        each.start()
    wanted = [namespace("wanted" if n % 2 else f"own{n}")[0] for n in range(40)]
    results = await asyncio.gather(*(committers[n // 2 % 2].submit(append_request) for n, append_request in enumerate(wanted)))
    for each in committers:
        await each.close()
    outcomes = [result.outcome for result in results]
    assert ["appended"] * 20 == outcomes[0::2]
    assert ["appended"] + ["claim"] * 19 == sorted(outcomes[1::2])
    await sound(database)


@pytest.mark.parametrize(
    ("there", "wanted", "free"),
    [
        ("s3|s3://b/a/t/", "s3|s3://b/a/t/", False),
        ("s3|s3://b/a/t/", "s3|s3://b/a/t/inside/", False),
        ("s3|s3://b/a/t/", "s3|s3://b/a/", False),
        ("s3|s3://b/a/t/", "s3|s3://b/", False),
        ("s3|s3://b/a/t/", "s3|s3://b/a/tx/", True),
        ("s3|s3://b/a/t/", "s3|s3://b/a/t-1/", True),
        ("s3|s3://b/a/t/", "s3|s3://b/a/t0/", True),
        ("s3|s3://b/a/t/", "s3|s3://b2/a/t/", True),
        ("s3|s3://b/a/t-1/", "s3|s3://b/a/t/", True),
        ("s3|s3://b/a/t0/", "s3|s3://b/a/t/", True),
        ("s3|s3://b/ü/é/", "s3|s3://b/ü/", False),
        ("s3|s3://b/a%/t/", "s3|s3://b/a_/t/", True),
        ("s3|s3://b/T/", "s3|s3://b/t/", True),
    ],
)
async def test_locations_do_not_equal_contain_or_lie_inside_another(committer: Committer, there: str, wanted: str, free: bool) -> None:
    """By whole segments, byte for byte."""
    assert "appended" == (await committer.submit(table("t", there)[0])).outcome
    result = await committer.submit(table("u", wanted)[0])
    assert ("appended" if free else "location") == result.outcome


async def test_overlapping_locations_wanted_at_once_have_one_winner(database: str, committer: Committer) -> None:
    """Each location is inside the previous one."""
    nested = ["s3|s3://b/" + "a/" * depth for depth in range(1, 16)]
    results = await asyncio.gather(*(committer.submit(table(f"t{n}", key)[0]) for n, key in enumerate(nested)))
    assert ["appended"] + ["location"] * 14 == sorted(result.outcome for result in results)
    await sound(database)


async def test_nothing_of_anothers_is_released(committer: Committer, database: str) -> None:
    """A name of another object refuses the command; a location is ignored."""
    created, state = table("t", "s3|s3://b/t/")
    assert "appended" == (await committer.submit(created)).outcome
    settle = "select icecore.write_claims(%s::jsonb)"
    names = "select kind, scope, key from icecore.claims where owner = %s"
    nothing: dict[str, list[Any]] = {kind: [] for kind in ("parents", "empty", "release", "take", "release_locations", "take_locations")}
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        held = await (await connection.execute(names, (state.id,))).fetchall()
        assert held
        for released in [{"release": [[kind, str(scope), key, str(uuid4())]]} for kind, scope, key in held]:
            with pytest.raises(psycopg.Error) as refused:
                await connection.execute(settle, (orjson.dumps(nothing | released).decode(),))
            assert "IC409" == refused.value.sqlstate
        places = nothing | {"release_locations": [["s3|s3://b/t/", str(uuid4())]]}
        await connection.execute(settle, (orjson.dumps(places).decode(),))
        assert held == await (await connection.execute(names, (state.id,))).fetchall()
    assert "location" == (await committer.submit(table("u", "s3|s3://b/t/")[0])).outcome
    await sound(database)


@pytest.mark.parametrize(("purge", "expected"), [(False, "appended"), (True, "location")])
async def test_a_dropped_tables_location_is_free_when_the_drop_is_final(committer: Committer, purge: bool, expected: str) -> None:
    """Its name is free at once; its location only after a pending purge."""
    created, state = table("t", "s3|s3://b/t/")
    drop = AppendRequest(context("dropTable"))
    drop.add(state.id, WAREHOUSE_ID, state, [TableDropped(purge)])
    await committer.submit_batch([created, drop])
    assert "appended" == (await committer.submit(table("t")[0])).outcome
    assert expected == (await committer.submit(table("u", "s3|s3://b/t/")[0])).outcome


async def test_two_tables_swap_their_names_in_one_command(committer: Committer, database: str) -> None:
    """A command can take claims that it releases itself."""
    (create_a, a), (create_b, b) = table("a"), table("b")
    await committer.submit_batch([create_a, create_b])
    swap = AppendRequest(context("renameTable"))
    swap.add(a.id, WAREHOUSE_ID, a, [TableRenamed(WAREHOUSE_ID, "b", "b")])
    swap.add(b.id, WAREHOUSE_ID, b, [TableRenamed(WAREHOUSE_ID, "a", "a")])
    assert "appended" == (await committer.submit(swap)).outcome
    await sound(database)


async def test_a_name_ends_once(committer: Committer, database: str) -> None:
    """Closing a table's second name does not close its first one again."""
    created, state = table("a")
    await committer.submit(created)
    for name in ("b", "c"):
        rename = AppendRequest(context("renameTable"))
        state = rename.add(state.id, WAREHOUSE_ID, state, [TableRenamed(WAREHOUSE_ID, name, name)])
        assert "appended" == (await committer.submit(rename)).outcome
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        spans = "select from_position, to_position from icecore.names where object_id = %s order by from_position"
        assert [(1, 2), (2, 3), (3, None)] == await (await connection.execute(spans, (state.id,))).fetchall()


async def test_several_events_of_one_stream_in_one_command(committer: Committer, database: str) -> None:
    """Names and parts that one event opens and the next one closes."""
    created, state = table("a")
    twice = AppendRequest(created.context)
    event_a, event_b = TableRenamed(WAREHOUSE_ID, "b", "b"), TableRenamed(WAREHOUSE_ID, "c", "c")
    await committer.submit(created)
    twice.add(state.id, WAREHOUSE_ID, state, [event_a, event_b, TableDropped(False)])
    assert "appended" == (await committer.submit(twice)).outcome
    await sound(database)


async def test_tables_and_views_share_their_names(committer: Committer) -> None:
    """They share one name space per namespace."""

    def view(name: str) -> AppendRequest:
        append_request = AppendRequest(context("createView"))
        location = f"s3://b/{name}"
        event = ViewCreated(WAREHOUSE_ID, name, name, f"s3|{location}/", f"{location}/metadata/0.json", {})
        append_request.add(uuid7(), WAREHOUSE_ID, None, [event])
        return append_request

    outcomes = [(await committer.submit(each)).outcome for each in (table("t")[0], view("t"), view("v"), table("v")[0])]
    assert ["appended", "claim", "appended", "claim"] == outcomes


async def test_of_a_drop_of_a_namespace_and_a_table_created_in_it_one_wins(committer: Committer, database: str) -> None:
    """In either order, no table is left in a dropped namespace."""
    seen = set()
    for n in range(12):
        created, state = namespace(f"n{n}")
        await committer.submit(created)
        drop = AppendRequest(context("dropNamespace"), must_be_empty=[state.id])
        drop.add(state.id, WAREHOUSE_ID, state, [NamespaceDropped()])
        create, _ = table("t", parent_id=state.id)
        create.must_exist.append(state.id)
        race = [committer.submit(drop), committer.submit(create)]
        results = await asyncio.gather(*(race if n % 2 else reversed(race)))
        outcomes = [result.outcome for result in (results if n % 2 else reversed(results))]
        assert outcomes in (["appended", "parent"], ["not_empty", "appended"])
        seen.add(tuple(outcomes))
    assert 2 == len(seen)
    await sound(database)


# Repeated commands


async def test_the_same_command_sent_again_is_found_and_not_done_twice(committer: Committer, database: str) -> None:
    """It has the same outcome and position, also if it is repeated in the same batch."""
    created, state = namespace("a")
    first = await committer.submit(created)
    await committer.submit(changed(state, x="1")[0])
    assert [first, first] == await committer.submit_batch([created, created])
    twin, _ = namespace("b")
    results = await committer.submit_batch([twin, twin])
    assert [AppendResult("appended", 3), AppendResult("appended", 3)] == results
    assert 3 == len(await log_of(database))


async def test_a_key_is_replayed_with_the_record_of_its_first_request(committer: Committer, database: str) -> None:
    """The key is checked before the second command's heads and claims."""
    key, record = uuid4(), IdempotencyRecord(200, uuid4(), 3, b"body")
    first, _ = namespace("a", given=context("createNamespace", key=key, request_hash=b"h"))
    first.idempotency_record = record
    done = await committer.submit(first)
    again, _ = namespace("a", given=context("createNamespace", key=key, request_hash=b"h"))
    again.idempotency_record = IdempotencyRecord(200)
    assert AppendResult("replayed", done.position, idempotency_record=record, operation="createNamespace") == await committer.submit(again)
    other, _ = namespace("b", given=context("createNamespace", key=key, request_hash=b"other"))
    other.idempotency_record = IdempotencyRecord(200)
    assert "key_reused" == (await committer.submit(other)).outcome
    assert 1 == len(await log_of(database))


async def test_a_key_belongs_to_its_project_and_actor(committer: Committer) -> None:
    """Another principal's or project's equal key is a different key."""
    key = uuid4()
    for n, (project_id, actor) in enumerate([(PROJECT_ID, "anonymous"), (PROJECT_ID, "other"), (uuid4(), "anonymous")]):
        append_request, _ = namespace(f"n{n}", given=RequestContext("r", project_id, Principal(actor), "createNamespace", key, b"h"))
        append_request.idempotency_record = IdempotencyRecord(200)
        assert "appended" == (await committer.submit(append_request)).outcome


async def test_a_failed_command_leaves_its_key_free(committer: Committer) -> None:
    """Only committed commands are recorded."""
    key = uuid4()
    await committer.submit(namespace("a")[0])
    failing, _ = namespace("a", given=context("createNamespace", key=key, request_hash=b"h"))
    failing.idempotency_record = IdempotencyRecord(200)
    assert "claim" == (await committer.submit(failing)).outcome
    right, _ = namespace("b", given=context("createNamespace", key=key, request_hash=b"h"))
    right.idempotency_record = IdempotencyRecord(200)
    assert "appended" == (await committer.submit(right)).outcome


async def test_a_refusal_is_a_row_without_events_and_bars_a_late_first_copy(committer: Committer, database: str) -> None:
    """After a command was answered with a refusal, no copy of it in flight takes effect."""
    late, _ = namespace("a")
    refusal = AppendRequest(late.context, late.command_id)
    assert "recorded" == (await committer.submit(refusal)).outcome
    assert "recorded" == (await committer.submit(late)).outcome
    assert [] == await log_of(database)
    await sound(database)


# Lost answers


@pytest.mark.parametrize("cut", ["response", "request", "late"])
async def test_a_lost_connection_leaves_one_effect(database: str, cut: str) -> None:
    """Whether Postgres executed the request, never got it, or gets it later: the command is in the log once."""
    async with CuttingProxy(database).running() as proxy:
        committer = Committer(proxy.dsn, connections=1)
        committer.start()
        await committer.submit(namespace("warm up")[0])
        proxy.cut = cut  # type: ignore[assignment]  # one of the three
        result = await committer.submit(namespace("a")[0])
        await proxy.deliver()
        await committer.close()
    assert (1, "appended", 2) == (proxy.cuts, result.outcome, result.position)
    assert 2 == len(await log_of(database))
    await sound(database)


async def test_a_refusal_after_a_lost_answer_bars_the_late_first_copy(database: str) -> None:
    """The repeated command conflicts with another and is refused. The lost copy arrives after the conflict is gone."""
    async with CuttingProxy(database).running() as proxy:
        committer, other = Committer(proxy.dsn, connections=1), Committer(database)
        committer.start()
        other.start()
        await committer.submit(namespace("warm up")[0])
        taken, state = namespace("a")
        await other.submit(taken)
        proxy.cut = "late"
        refused = await committer.submit(namespace("a")[0])
        assert "claim" == refused.outcome
        drop = AppendRequest(context("dropNamespace"))
        drop.add(state.id, WAREHOUSE_ID, state, [NamespaceDropped()])
        await other.submit(drop)
        await proxy.deliver()
        await committer.close()
        await other.close()
    assert 3 == len(await log_of(database)), "the name is free by now, and the late copy still finds the bar"
    await sound(database)


async def test_a_command_whose_id_is_blocked_has_had_no_effect(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the row that blocks the command's id is lost too. The third copy finds that row, which is not a success."""
    send = committing._send
    async with CuttingProxy(database).running() as proxy:
        committer, other = Committer(proxy.dsn, connections=1), Committer(database)
        committer.start()
        other.start()
        await committer.submit(namespace("warm up")[0])
        await other.submit(namespace("a")[0])

        async def losing_bar(connection: Any, append_requests: list[AppendRequest], figures: Any) -> Any:
            if not append_requests[0].has_events and proxy.cuts == 1:
                proxy.cut = "response"
            return await send(connection, append_requests, figures)

        monkeypatch.setattr(committing, "_send", losing_bar)
        proxy.cut = "late"
        result = await committer.submit(namespace("a")[0])
        await proxy.deliver()
        await committer.close()
        await other.close()
    assert 2 == proxy.cuts
    assert "version_conflict" == result.outcome, "decided again, under another id"
    assert 2 == len(await log_of(database))
    await sound(database)


async def test_of_a_batch_that_is_refused_nothing_is_appended(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch fails as a whole, and then its first command fails alone. The others are not sent, because the metadata files of all are
    deleted.
    """
    send = committing._send

    async def failing(connection: Any, append_requests: list[AppendRequest], figures: Any) -> Any:
        if len(append_requests) == 2:
            raise psycopg.errors.InvalidTextRepresentation("the batch says nothing of its commands")
        if append_requests == [first]:
            raise psycopg.errors.LockNotAvailable
        return await send(connection, append_requests, figures)

    monkeypatch.setattr(committing, "_send", failing)
    first, second = namespace("first")[0], namespace("second")[0]
    committer = Committer(database)
    committer.start()
    with pytest.raises(ServiceUnavailable):
        await committer.submit_batch([first, second])
    await committer.close()
    assert [] == await log_of(database)


async def test_a_backend_that_is_terminated_leaves_one_effect(database: str, committer: Committer) -> None:
    """pg_terminate_backend during commands: each is in the log once and is answered accordingly."""
    kills, commands = 0, 0
    async with await AsyncConnection.connect(database, autocommit=True) as connection, asyncio.timeout(60):
        while kills < 5:
            burst = [asyncio.create_task(committer.submit(namespace(f"n{commands + n}")[0])) for n in range(10)]
            commands += len(burst)
            await asyncio.sleep(0)
            while not all(task.done() for task in burst):
                found = await connection.execute(_KILL)
                row = await found.fetchone()
                assert row is not None
                if row[0]:
                    kills += row[0]
                    break
            assert {"appended"} == {result.outcome for result in await asyncio.gather(*burst)}
    assert commands == len(await log_of(database))
    await sound(database)


_KILL = """
select count(*) from (
  select pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'icecore-committer' and datname = current_database() and state = 'active') k
"""


async def test_refusals_while_postgres_is_away_leave_room(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused commands leave the queue, so that it has its full capacity."""
    monkeypatch.setattr("icecore.commands.execution.committer.COMMITTER_QUEUE_COMMANDS_MAX", 4)
    monkeypatch.setattr("icecore.commands.execution.committer.APPEND_COMMANDS_MAX", 1)
    async with CuttingProxy(database).running() as proxy:
        dsn = proxy.dsn
    committer = Committer(dsn, connections=1)
    committer.start()
    for _ in range(5):
        refused = await asyncio.gather(*(committer.submit(namespace("a")[0]) for _ in range(4)), return_exceptions=True)
        assert ["ServiceUnavailable"] * 4 == [type(error).__name__ for error in refused]
        assert 0 == committer.queued
    await committer.close()


async def test_busy_while_in_doubt_is_still_doubt(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated command that cannot get the lock may have an earlier copy in the log, so the answer is not a plain 503."""
    monkeypatch.setattr("icecore.commands.execution.committer.LOCK_TIMEOUT_SECONDS", 1)
    async with CuttingProxy(database).running() as proxy, await AsyncConnection.connect(database) as holder:
        committer = Committer(proxy.dsn, connections=1)
        committer.start()
        await committer.submit(namespace("warm up")[0])
        proxy.cut = "response"
        submitted = asyncio.create_task(committer.submit(namespace("a")[0]))
        await proxy.has_cut.wait()
        await holder.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND])
        await asyncio.sleep(1.6)
        await holder.commit()
        assert "appended" == (await submitted).outcome
        await committer.close()
    assert 2 == len(await log_of(database))


# Rows of the log


@pytest.mark.parametrize("statement", ["update icecore.events set actor = 'x'", "delete from icecore.events", "truncate icecore.events"])
async def test_the_log_is_append_only(committer: Committer, database: str, statement: str) -> None:
    """Also for the table's owner."""
    await committer.submit(namespace("a")[0])
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match="the log is append-only"):
        connection.execute(statement)  # type: ignore[arg-type]  # the parameters above
    assert 1 == len(await log_of(database))


async def test_recorded_at_grows_with_every_command(committer: Committer, database: str) -> None:
    """If the clock is ahead or set back, times increase by a microsecond until it has caught up, so that a time identifies a position."""
    await committer.submit(namespace("a")[0])
    ahead = datetime.now(UTC) + timedelta(hours=1)
    with psycopg.connect(database) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update icecore.events set recorded_at = %s", (ahead,))
    results = await committer.submit_batch([namespace("b")[0], namespace("c")[0]])
    assert {"appended"} == {result.outcome for result in results}
    expected = [ahead + timedelta(microseconds=number) for number in range(3)]
    assert expected == [event.recorded_at for event in await log_of(database)]


async def test_one_time_for_a_command_and_times_in_the_order_of_positions(committer: Committer, database: str) -> None:
    """Times are in the order of positions, so that a time identifies a position."""

    def of_two_events(number: int) -> AppendRequest:
        append_request, name = AppendRequest(context("createNamespace")), f"n{number}"
        append_request.add(uuid7(), WAREHOUSE_ID, None, [creation(name), NamespacePropertiesChanged({"k": "v"}, [])])
        return append_request

    await asyncio.gather(*(committer.submit(of_two_events(n)) for n in range(100)))
    events = await log_of(database)
    times = [event.recorded_at for event in events]
    assert sorted(times) == times
    # A command's events have consecutive positions and one time. Other commands have other times.
    assert [each.command_id for each in events[::2]] == [each.command_id for each in events[1::2]]
    assert times[::2] == times[1::2]
    assert 100 == len({each.command_id for each in events}) == len(set(times))


async def test_the_envelope_is_what_the_command_said(committer: Committer, database: str) -> None:
    """Every column of the row."""
    given_context = RequestContext(
        "request", uuid4(), Principal("actor ✓"), "createWarehouse", None, b"", "correlation", cause := uuid4(), "00-trace-span-01"
    )
    append_request, warehouse_id = AppendRequest(given_context), uuid7()
    append_request.add(warehouse_id, warehouse_id, None, [WarehouseCreated("w", "w", {"type": "local"}, None, False)])
    await committer.submit(append_request)
    (event,) = await log_of(database)
    assert (warehouse_id, 1, "warehouse.created.v1", 1) == (event.stream_id, event.version, event.topic, event.position)
    assert (append_request.command_id, given_context.project_id, warehouse_id) == (event.command_id, event.project_id, event.warehouse_id)
    assert ("actor ✓", "request", "correlation", cause) == (event.actor, event.request_id, event.correlation_id, event.causation_id)
    assert ("00-trace-span-01", None) == (event.traceparent, event.context)
    assert chain_hash(bytes(32), event) == event.hash


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds must be naive
BIGINTS = st.integers(1, 2**63 - 1)
EVENTS = st.builds(
    RecordedEvent,
    stream_id=st.uuids(),
    version=BIGINTS,
    topic=TEXTS,
    data=st.binary(max_size=100),
    position=BIGINTS,
    event_id=st.uuids(),
    command_id=st.uuids(),
    recorded_at=TIMES,
    actor=TEXTS,
    project_id=st.uuids(),
    warehouse_id=st.uuids(),
    request_id=TEXTS,
    correlation_id=st.none() | TEXTS,
    causation_id=st.none() | st.uuids(),
    traceparent=st.none() | TEXTS,
    context=st.none() | TEXTS,
    hash=st.just(b""),
)


def test_the_hash_in_sql_is_the_hash_in_python(database: str) -> None:
    """For nulls, empty and multi-byte texts, and times before and after 1970."""
    with psycopg.connect(database, autocommit=True) as connection:

        @settings(max_examples=300, deadline=None)
        @given(st.binary(min_size=32, max_size=32), EVENTS)
        def same(previous: bytes, event: RecordedEvent) -> None:
            row = tuple(getattr(event, name) for name in _COLUMNS)
            found = connection.execute(
                "select icecore.event_hash(%s, row(" + ", ".join(f"%s::{kind}" for kind in _TYPES) + ")::icecore.events)",  # type: ignore[arg-type]
                (previous, *row),
            ).fetchone()
            assert (chain_hash(previous, event),) == found

        same()


# Of the columns of icecore.events, in order.
_TYPES = ("uuid", "bigint", "text", "bytea", "bigint", "uuid", "uuid", "timestamptz", "text", "uuid", "uuid", "text", "text", "uuid")
_TYPES += ("text", "bytea", "text")
_COLUMNS = (*RecordedEvent.__slots__[:-2], "hash", "context")


async def append(connection: AsyncConnection[Any], append_requests: list[AppendRequest]) -> None:
    """Calls the function in the connection's own transaction, unlike the committer."""
    blobs: list[bytes] = []
    batch = orjson.dumps([append_request.to_json(blobs) for append_request in append_requests]).decode()
    await connection.execute("select * from icecore.append(%s::text::jsonb, %s::bytea[])", (batch, blobs))


@pytest.mark.parametrize(("statement", "rolled_back"), [("select 1 / 0", True), ("select pg_terminate_backend(pg_backend_pid())", False)])
async def test_only_an_error_of_the_statement_says_that_it_was_rolled_back(database: str, statement: str, rolled_back: bool) -> None:
    """A session can be ended after a commit, while it waits for a standby."""
    with pytest.raises(psycopg.Error) as raised:
        async with await connect(database) as connection:
            await connection.execute(statement.encode())
    assert raised.value.sqlstate is not None
    assert rolled_back == was_rolled_back(raised.value)


@pytest.mark.parametrize("commands", [1, 2])
async def test_an_error_after_a_lost_response_says_nothing_of_the_earlier_call(
    database: str, monkeypatch: pytest.MonkeyPatch, commands: int
) -> None:
    """The earlier one may have committed the commands, so that their metadata files must stay."""
    sent = 0

    async def failing(connection: Any, *_: object) -> Any:
        nonlocal sent
        sent += 1
        if sent == 1:
            await connection.close()
            raise psycopg.OperationalError("the connection was lost")
        raise psycopg.errors.InvalidTextRepresentation("refused")

    monkeypatch.setattr(committing, "_send", failing)
    committer = Committer(database)
    committer.start()
    with pytest.raises(CommitStateUnknown):
        await committer.submit_batch([namespace(f"n{number}")[0] for number in range(commands)])
    await committer.close()
    assert sent > 1
