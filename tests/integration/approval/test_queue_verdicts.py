"""Verdicts in queues: a hook's refusal is returned only if it was based on a committed state of the table."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.approval.contract import ALLOW, ProposedChange, Refuse, Verdict
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.handler import Decision
from icecore.commands.execution.queue_entries import QueuedCommand
from icecore.commands.execution.stream_queue import StreamQueue
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CommitTransaction, CreateNamespace, CreateTable, UpdateNamespaceProperties
from icecore.domain.errors import ApprovalUnavailable, ChangeRefused, CommitFailed
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections.verify import verify
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.integration.approval.judging import Judge, asking

NAMESPACE = NamespaceIdentifier(("a",))
TABLE = TabularIdentifier(NAMESPACE, "t")
QUOTA = 10


class Process:
    """One catalog process with its own judge."""

    def __init__(self, catalog: Application, warehouse: Warehouse) -> None:
        self.catalog = catalog
        self.warehouse = warehouse
        self.judge = Judge()
        asking(self.judge)(catalog)

    async def set(self, **properties: str) -> CommandResponse:
        command = CommitTable(TABLE, [], [{"action": "set-properties", "updates": properties}])
        return await commit_table(self.catalog.commands, context("updateTable"), self.warehouse, command)

    async def set_together(self, **properties: str) -> CommandResponse:
        command = CommitTransaction([CommitTable(TABLE, [], [{"action": "set-properties", "updates": properties}])])
        return await commit_transaction(self.catalog.commands, context("commitTransaction"), self.warehouse, command)

    async def properties(self) -> dict[str, str]:
        response = await load_table(self.catalog.queries, context("loadTable"), self.warehouse, TABLE)
        assert response.body is not None
        found: dict[str, str] = orjson.loads(response.body)["metadata"]["properties"]
        return found


@pytest.fixture
async def two(database: str, tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes and a table `t`."""
    async with AsyncExitStack() as opened:
        catalogs = [await opened.enter_async_context(opened_catalog(database, tmp_path / "warehouse")) for _ in range(2)]
        warehouse = await resolve_warehouse(catalogs[0].backends, PROJECT_ID, "demo")
        first, second = (Process(catalog, warehouse) for catalog in catalogs)
        write = catalogs[0].commands
        await create_namespace(write, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
        schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
        command = CreateTable(NAMESPACE, "t", None, schema, None, None, {}, stage_create=False)
        await create_table(write, context("createTable"), warehouse, command)
        yield first, second
    assert [] == (await verify(database)).differences


def locked(change: ProposedChange) -> Verdict:
    """A table with the property `locked` must not be changed."""
    (changed,) = change.objects
    assert changed.before is not None
    assert changed.after is not None
    if changed.before["properties"].get("locked") == "yes" == changed.after["properties"]["locked"]:
        return Refuse("it is locked")
    return ALLOW


async def test_a_stale_cached_state_causes_no_refusal(two: tuple[Process, Process]) -> None:
    """The first process has cached a locked table. The second has unlocked it before the first gets its request."""
    first, second = two
    for process in two:
        process.judge.say = locked
    for number in range(10):
        await first.set(locked="yes", **{f"lock{number}": "1"})
        with pytest.raises(ChangeRefused):
            await second.set(never="1")
        await second.set(locked="no")
        await first.set(**{f"after{number}": "1"})
        await first.set_together(**{f"together{number}": "1"})
    properties = await first.properties()
    assert "never" not in properties
    assert {f"{word}{number}" for word in ("lock", "after", "together") for number in range(10)} <= set(properties)


async def test_a_refusal_given_without_proof_would_be_false(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the test above detects a queue that returns refusals without proof."""

    async def give_at_once(queue: Any, refused: list[Any], reservation: Any) -> list[Any]:
        for entry in refused:
            queue._return_unappended(entry)
        return []

    monkeypatch.setattr(StreamQueue, "_finish_unappended", give_at_once)
    first, second = two
    for process in two:
        process.judge.say = locked
    await first.set(locked="yes")
    await second.set(locked="no")
    with pytest.raises(ChangeRefused):
        await first.set(after="1")


async def test_what_stands_behind_a_refused_command_is_decided_again(two: tuple[Process, Process]) -> None:
    """Of many concurrent commands some are refused. The results of the others contain nothing of those, and each was reviewed on the state
    before it.
    """
    first, _ = two

    def no_bad(change: ProposedChange) -> Verdict:
        (changed,) = change.objects
        assert changed.after is not None
        return Refuse("bad") if any(name.startswith("bad") for name in changed.after["properties"]) else ALLOW

    first.judge.say = no_bad
    names = [f"{'bad' if number % 5 == 2 else 'good'}{number}" for number in range(40)]
    outcomes = await asyncio.gather(*(first.set(**{name: "1"}) for name in names), return_exceptions=True)
    for name, outcome in zip(names, outcomes, strict=True):
        assert isinstance(outcome, ChangeRefused if name.startswith("bad") else CommandResponse), (name, outcome)
    assert {name for name in names if name.startswith("good")} == {name for name in await first.properties() if name in names}
    assert max(first.catalog.commands.queues.metrics.batch_lengths) > 1, "nothing was chained: nothing was shown"


def quota(change: ProposedChange) -> Verdict:
    """A table has at most QUOTA properties of one kind."""
    (changed,) = change.objects
    assert changed.after is not None
    held = [name for name in changed.after["properties"] if name.startswith("q")]
    return Refuse("full") if len(held) > QUOTA else ALLOW


async def test_two_processes_in_contention_fill_a_quota_exactly(two: tuple[Process, Process]) -> None:
    """If a refusal were based on an uncommitted state, too few would succeed; if one were missed, too many."""
    for process in two:
        process.judge.say = quota
    asked = [(process, f"q{number}_{index}") for number in range(QUOTA) for index, process in enumerate(two)]
    outcomes = await asyncio.gather(
        *((process.set if number % 3 else process.set_together)(**{name: "1"}) for number, (process, name) in enumerate(asked)),
        return_exceptions=True,
    )
    taken = {name for (_, name), outcome in zip(asked, outcomes, strict=True) if isinstance(outcome, CommandResponse)}
    refused = [outcome for outcome in outcomes if isinstance(outcome, ChangeRefused)]
    assert (QUOTA, QUOTA) == (len(taken), len(refused)), outcomes
    assert taken == {name for name in await two[1].properties() if name.startswith("q")}


async def test_commits_waiting_for_a_hanging_hook_fail_together(two: tuple[Process, Process]) -> None:
    """All waiting commands fail after one or two timeouts, not one after the other."""
    first, _ = two
    asking(first.judge, timeout_seconds=0.2)(first.catalog)
    first.judge.say = lambda _: asyncio.Event().wait()
    outcomes = await asyncio.gather(*(first.set(**{f"p{number}": "1"}) for number in range(24)), return_exceptions=True)
    assert {ApprovalUnavailable} == {type(outcome) for outcome in outcomes}
    assert len(first.judge.shown) <= 2 * 24
    first.judge.say = None
    await first.set(after="1")


async def test_a_slow_hook_holds_up_its_own_table_alone(two: tuple[Process, Process]) -> None:
    """Commands on other tables continue during a review."""
    first, _ = two
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    other = CreateTable(NAMESPACE, "other", None, schema, None, None, {}, stage_create=False)
    release = asyncio.Event()

    async def wait(change: ProposedChange) -> Verdict:
        if change.objects[0].name_after == ("a", "t"):
            await release.wait()
        return ALLOW

    first.judge.say = wait
    slow = asyncio.create_task(first.set(slow="1"))
    while not first.judge.shown:
        await asyncio.sleep(0)
    await create_table(first.catalog.commands, context("createTable"), first.warehouse, other)
    assert not slow.done()
    release.set()
    await slow


async def test_a_refusal_decided_behind_a_change_that_a_hook_refuses_is_not_given(two: tuple[Process, Process]) -> None:
    """The second commit's requirement fails only because of the first, which the hook refuses. The second succeeds."""
    first, _ = two
    fields = [{"id": number, "name": name, "required": False, "type": "long"} for number, name in ((1, "x"), (2, "y"))]
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    adding = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    requirement = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}

    async def commit(updates: list[dict[str, Any]], requirements: list[dict[str, Any]]) -> CommandResponse:
        command = CommitTable(TABLE, requirements, updates)
        return await commit_table(first.catalog.commands, context("updateTable"), first.warehouse, command)

    await first.set(known="1")
    first.judge.say = lambda change: Refuse("no columns") if len(change.objects[0].after["schemas"]) > 1 else ALLOW  # type: ignore[index]
    setting = [{"action": "set-properties", "updates": {"k": "v"}}]
    refused, allowed = await asyncio.gather(commit(adding, []), commit(setting, [requirement]), return_exceptions=True)
    assert isinstance(refused, ChangeRefused)
    assert isinstance(allowed, CommandResponse), allowed
    assert "v" == (await first.properties())["k"]


async def test_a_verdict_rests_on_the_namespace_properties_that_the_hook_read(two: tuple[Process, Process]) -> None:
    """The namespace gets a contract while a change is reviewed. The hook is asked again, because its verdict was based on old
    properties.
    """
    first, second = two
    read: list[dict[str, str]] = []

    async def by_promise(change: ProposedChange) -> Verdict:
        (declared,) = await change.namespace_properties(NAMESPACE.levels)
        read.append({name: value for name, value in declared.items() if name != "location"})
        if declared.get("frozen") == "yes":
            return Refuse("it is frozen")
        promise = UpdateNamespaceProperties(NAMESPACE, [], {"frozen": "yes"})
        await update_namespace_properties(second.catalog.commands, context("updateProperties"), second.warehouse, promise)
        return ALLOW

    first.judge.say = by_promise
    for change in (first.set, first.set_together):
        read.clear()
        with pytest.raises(ChangeRefused):
            await change(x="1")
        assert [{}, {"frozen": "yes"}] == read
        thaw = UpdateNamespaceProperties(NAMESPACE, ["frozen"], {})
        await update_namespace_properties(second.catalog.commands, context("updateProperties"), second.warehouse, thaw)
    assert "x" not in await first.properties()


async def test_a_refusal_decided_before_a_change_that_a_hook_refuses_is_given_with_it(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends only on committed states, so it is not decided again."""
    first, _ = two
    asked, decided = context("updateTable"), 0
    decide = QueuedCommand.decide

    async def counted(job: Any, *state: Any, **size: Any) -> Decision:
        nonlocal decided
        decided += job.handler.context is asked
        return await decide(job, *state, **size)

    monkeypatch.setattr(QueuedCommand, "decide", counted)
    await first.set(known="1")
    first.judge.say = lambda change: Refuse("bad") if "bad" in change.objects[0].after["properties"] else ALLOW  # type: ignore[index]
    wrong = CommitTable(TABLE, [{"type": "assert-current-schema-id", "current-schema-id": 7}], [])
    good, broken, bad = await asyncio.gather(
        first.set(good="1"),
        commit_table(first.catalog.commands, asked, first.warehouse, wrong),
        first.set(bad="1"),
        return_exceptions=True,
    )
    assert (CommandResponse, CommitFailed, ChangeRefused) == (type(good), type(broken), type(bad))
    assert 1 == decided
