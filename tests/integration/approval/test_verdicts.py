"""Verdicts: what a hook gets for every kind of change, and the effect of its verdict, failure or timeout."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.api.iceberg.operations import OPERATIONS
from icecore.api.management.operations import OPERATIONS as MANAGEMENT
from icecore.approval.contract import ALLOW, REVIEWED_OPERATIONS, Hold, Refuse
from icecore.approval.hooks import OnFailure
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.errors import ChangeRefused
from tests.fixtures.catalog import CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.rest_client import RestClient, set_properties, table_path
from tests.integration.approval.judging import Approver, Judge, asking, held

REFUSAL = Refuse("the owner says no")


def head(server: CatalogServer) -> int:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("select coalesce(max(notification_id), 0) from icecore.events").fetchone()
    assert row is not None
    return int(row[0])


def files(server: CatalogServer) -> set[Path]:
    return {path for path in server.warehouse_directory.rglob("*") if path.is_file()}


def snapshot(metadata: dict[str, Any], snapshot_id: int = 1) -> list[dict[str, Any]]:
    """The updates of an append."""
    added = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": metadata["current-schema-id"],
    }
    return [
        {"action": "add-snapshot", "snapshot": added},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]


def test_every_kind_of_change_is_shown(client: Approver, judge: Judge) -> None:
    """With its operation, object, name, and the topics of its events."""
    client.create_namespace("a", "b")
    client.call("POST", "/namespaces/a/properties", {"updates": {"k": "v"}, "removals": []})
    client.create_table(["a", "b"], "u")
    client.commit(["a"], "t", set_properties(k="v"))
    client.rename_table((["a"], "t"), (["a", "b"], "s"))
    client.create_view(["a"], "v")
    client.call("POST", "/namespaces/a/views/v", {"requirements": [], "updates": [set_properties(k="v")]})
    client.rename_view((["a"], "v"), (["a"], "w"))
    location = client.load_view(["a"], "w").json["metadata-location"]
    client.call("DELETE", "/namespaces/a/views/w")
    client.call("POST", "/namespaces/a/register-view", {"name": "x", "metadata-location": location})
    unregistered = client.call("POST", f"{table_path(['a', 'b'], 's')}/unregister").json
    client.call("POST", "/namespaces/a/register", {"name": "r", "metadata-location": unregistered["metadata-location"]})
    change = {"identifier": {"namespace": ["a"], "name": "r"}, "requirements": [], "updates": [set_properties(k="v")]}
    client.call("POST", "/transactions/commit", {"table-changes": [change]})
    client.drop_table(["a", "b"], "u")
    client.call("DELETE", "/namespaces/a%1Fb")
    shown = [
        (change.operation, each.kind, each.name_before, each.name_after, each.topics) for change in judge.shown for each in change.objects
    ]
    assert shown == [
        ("createNamespace", "namespace", None, ("a", "b"), ("namespace.created.v1",)),
        ("updateProperties", "namespace", ("a",), ("a",), ("namespace.properties-changed.v1",)),
        ("createTable", "table", None, ("a", "b", "u"), ("table.created.v1",)),
        ("updateTable", "table", ("a", "t"), ("a", "t"), ("table.committed.v1",)),
        ("renameTable", "table", ("a", "t"), ("a", "b", "s"), ("table.renamed.v1",)),
        ("createView", "view", None, ("a", "v"), ("view.created.v1",)),
        ("replaceView", "view", ("a", "v"), ("a", "v"), ("view.committed.v1",)),
        ("renameView", "view", ("a", "v"), ("a", "w"), ("view.renamed.v1",)),
        ("dropView", "view", ("a", "w"), None, ("view.dropped.v1",)),
        ("registerView", "view", None, ("a", "x"), ("view.registered.v1",)),
        ("unregisterTable", "table", ("a", "b", "s"), None, ("table.unregistered.v1",)),
        ("registerTable", "table", None, ("a", "r"), ("table.registered.v1",)),
        ("commitTransaction", "table", ("a", "r"), ("a", "r"), ("table.committed.v1",)),
        ("dropTable", "table", ("a", "b", "u"), None, ("table.dropped.v1",)),
        ("dropNamespace", "namespace", ("a", "b"), None, ("namespace.dropped.v1",)),
    ]
    changing = {operation.name for operation in OPERATIONS if operation.mutates} - {"reportMetrics"}
    assert changing == {operation for operation, *_ in shown}, "an operation that no hook is asked about"
    of_warehouses = {operation.name for operation in MANAGEMENT if operation.mutates and "/warehouse" in operation.path}
    # When files are deleted is up to operators. Whether they are was reviewed with the drop.
    assert REVIEWED_OPERATIONS == (changing | of_warehouses) - {"controlTasks"}, "what a hook's `operations` may name"


def test_documents_before_and_after_are_shown(client: Approver, judge: Judge) -> None:
    """The current state, the proposed state, and the namespaces' properties, which are read only on request."""
    declared: list[Any] = []

    async def look(change: Any) -> Any:
        declared.append(await change.namespace_properties(("a", "b")))
        return ALLOW

    client.create_namespace("a", "b", inner="1")
    judge.shown.clear()
    judge.say = look
    assert client.commit(["a"], "t", set_properties(k="v")).status == 200
    (change,) = judge.shown
    (changed,) = change.objects
    assert changed.before is not None
    assert changed.after is not None
    assert (None, "v") == (changed.before["properties"].get("k"), changed.after["properties"].get("k"))
    assert changed.uuid == changed.after["table-uuid"]
    ((outer, inner),) = declared
    assert ({"owner", "location"}, "me") == ({*outer}, outer["owner"])
    assert ({"inner", "location"}, "1") == ({*inner}, inner["inner"])
    assert ("demo", "anonymous") == (change.warehouse_name, change.actor)


@pytest.mark.parametrize("operation", ["create", "commit", "rename", "drop", "namespace", "transaction"])
def test_a_refusal_leaves_no_trace(client: Approver, judge: Judge, server: CatalogServer, operation: str) -> None:
    """409 with the hook's reason. The log and the files are unchanged."""
    before = (head(server), files(server))
    judge.always(REFUSAL)
    calls = {
        "create": lambda: client.create_table(["a"], "u"),
        "commit": lambda: client.commit(["a"], "t", set_properties(k="v")),
        "rename": lambda: client.rename_table((["a"], "t"), (["a"], "s")),
        "drop": lambda: client.drop_table(["a"], "t"),
        "namespace": lambda: client.create_namespace("n"),
        "transaction": lambda: client.call(
            "POST",
            "/transactions/commit",
            {"table-changes": [{"identifier": {"namespace": ["a"], "name": "t"}, "requirements": [], "updates": [set_properties(k="v")]}]},
        ),
    }
    response = calls[operation]()
    assert (409, "ChangeRefusedException") == response.error
    assert "Refused by judge0: the owner says no" == response.message
    assert before == (head(server), files(server))
    judge.say = None
    assert calls[operation]().status in (200, 204)


def test_what_changes_nothing_is_not_asked_about(client: Approver, judge: Judge) -> None:
    """A staged create, a commit without effect, a read."""
    judge.always(REFUSAL)
    assert client.create_table(["a"], "u", **{"stage-create": True}).status == 200
    assert client.commit(["a"], "t").status == 200
    assert client.load_table(["a"], "t").status == 200
    assert [] == judge.shown


@pytest.fixture
def bench(database: str, tmp_path: Path) -> Iterator[tuple[Approver, list[Judge]]]:
    """Three judges."""
    judges = [Judge(), Judge(), Judge()]
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(*judges, timeout_seconds=1.0)) as opened:
        client = Approver(opened.url)
        assert client.create_namespace("a").status == 200
        yield client, judges
        client.close()


HOLD = Hold("somebody should look", 60.0)


@pytest.mark.parametrize(
    ("verdicts", "answered"),
    [
        ((ALLOW, ALLOW, ALLOW), None),
        ((ALLOW, HOLD, ALLOW), "ChangeHeldException"),
        ((HOLD, HOLD, REFUSAL), "ChangeRefusedException"),
        ((REFUSAL, ALLOW, HOLD), "ChangeRefusedException"),
        ((None, HOLD, ALLOW), "ApprovalUnavailableException"),
        ((None, ALLOW, REFUSAL), "ChangeRefusedException"),
    ],
)
def test_the_strictest_verdict_counts(bench: tuple[Approver, list[Judge]], verdicts: tuple[Any, ...], answered: str | None) -> None:
    """A refusal takes precedence over no verdict, that over a hold, and a hold over an allow. All hooks are asked."""
    client, judges = bench
    for judge, verdict in zip(judges, verdicts, strict=True):
        judge.shown.clear()
        judge.always(verdict)
    response = client.create_namespace("n")
    assert answered == (response.error[1] if response.status != 200 else None)
    assert [1, 1, 1] == [len(judge.shown) for judge in judges]


@pytest.mark.parametrize("seconds", [(3600.0, 600.0, None), (600.0, None, 3600.0), (None, 3600.0, 600.0)])
def test_of_hooks_that_hold_the_shortest_time_counts(bench: tuple[Approver, list[Judge]], seconds: tuple[float | None, ...]) -> None:
    """In any order. No hook's hold lasts longer than it specified."""
    client, judges = bench
    for judge, held_seconds in zip(judges, seconds, strict=True):
        judge.always(ALLOW if held_seconds is None else Hold("somebody should look", held_seconds))
    proposal = client.proposal(held(client.create_namespace("n")))
    opened, expires = (datetime.fromisoformat(proposal[name]) for name in ("opened-at", "expires-at"))
    assert timedelta(seconds=600) == expires - opened


def _raise(_: Any) -> Any:
    raise RuntimeError("out of order")


def _cancelled(_: Any) -> Any:
    raise asyncio.CancelledError


async def _deaf() -> Any:
    """Ignores cancellation for a while."""
    deadline = asyncio.get_running_loop().time() + 4
    while asyncio.get_running_loop().time() < deadline:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return ALLOW


FAILURES: dict[str, Any] = {
    "raises": _raise,
    "cancels itself": _cancelled,
    "hangs": lambda _: asyncio.sleep(60),
    "hangs and will not be cancelled": lambda _: _deaf(),
    "returns None": lambda _: None,
    "returns True": lambda _: True,
    "refuses without words": lambda _: Refuse("  "),
    "refuses with what is no text": lambda _: Refuse(7),  # type: ignore[arg-type]
    "refuses in what is no Unicode": lambda _: Refuse("\ud800"),
    "holds for ever": lambda _: Hold("why", float("inf")),
    "holds for no time": lambda _: Hold("why", 0),
}


@pytest.mark.parametrize("on_failure", ["refuse", "allow"])
@pytest.mark.parametrize("failure", FAILURES)
def test_no_verdict_is_the_policys(database: str, tmp_path: Path, failure: str, on_failure: OnFailure) -> None:
    """`refuse`: 503 with the hook's name, retryable, nothing done. `allow`: the change takes effect."""
    judge = Judge()
    prepare = asking(judge, timeout_seconds=0.3, on_failure=on_failure)
    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client = Approver(server.url)
        assert client.create_namespace("a").status == 200
        assert client.create_table(["a"], "t").status == 200
        before = head(server)
        judge.say = FAILURES[failure]
        responses = [client.create_namespace("n"), client.commit(["a"], "t", set_properties(k="v"))]
        if on_failure == "allow":
            assert [200, 200] == [response.status for response in responses]
        else:
            for response in responses:
                assert (503, "ApprovalUnavailableException") == response.error
                assert "The approval hook judge0 returned no verdict; nothing was changed" == response.message
                assert "1" == response.headers["retry-after"]
            assert before == head(server)
        client.close()


def test_what_brings_files_is_never_held(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """An append and a registration are allowed or refused, because their writers delete the files on a refusal."""
    metadata = client.load_table(["a"], "t").json["metadata"]
    judge.always(HOLD)
    refused = client.commit(["a"], "t", *snapshot(metadata))
    assert (409, "ChangeRefusedException") == refused.error
    assert "somebody should look" in refused.message
    location = client.load_table(["a"], "t").json["metadata-location"]
    judge.say = None
    assert client.call("POST", f"{table_path(['a'], 't')}/unregister").status == 200
    judge.always(HOLD)
    body = {"name": "t", "metadata-location": location}
    assert (409, "ChangeRefusedException") == client.call("POST", "/namespaces/a/register", body).error
    assert [] == client.proposals()
    # The same kinds of change without files are held.
    assert (409, "ChangeHeldException") == client.create_table(["a"], "u").error


def test_a_refusal_is_remembered_by_its_key(client: Approver, judge: Judge) -> None:
    """The same response even if the hook would now allow it. A failure is not stored."""
    body = {"requirements": [], "updates": [set_properties(k="v")]}
    key, other = uuid7(), uuid7()
    judge.always(REFUSAL)
    first = client.call("POST", table_path(["a"], "t"), body, key=key)
    judge.always(None)
    failed = client.call("POST", table_path(["a"], "t"), body, key=other)
    judge.say = None
    assert first.replayable == client.call("POST", table_path(["a"], "t"), body, key=key).replayable
    assert 409 == first.status
    assert (503, 200) == (failed.status, client.call("POST", table_path(["a"], "t"), body, key=other).status)


async def test_a_warehouse_is_asked_about_and_never_held(database: str, tmp_path: Path) -> None:
    """Creating a warehouse cannot be held, because the credential is not stored."""
    judge = Judge()
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        asking(judge)(catalog)
        profile = {"type": "local", "directory": str(tmp_path / "other")}
        for verdict in (REFUSAL, HOLD):
            judge.always(verdict)
            with pytest.raises(ChangeRefused, match=verdict.reason):
                await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse("other", profile))
        judge.say = None
        response = await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse("other", profile))
        assert 201 == response.status
    shown = [(each.kind, each.name_before, each.name_after, each.topics) for change in judge.shown for each in change.objects]
    assert [("warehouse", None, ("other",), ("warehouse.created.v1",))] * 3 == shown


def test_hooks_are_counted(database: str, tmp_path: Path) -> None:
    """Verdicts and failures by hook, for the metrics."""
    judge = Judge()
    catalogs: list[Any] = []

    def prepare(catalog: Any) -> None:
        asking(judge, timeout_seconds=0.2)(catalog)
        catalogs.append(catalog)

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client = RestClient(server.url)
        for verdict in (ALLOW, REFUSAL, None, HOLD):
            judge.always(verdict)
            client.create_namespace(f"n{len(judge.shown)}")
        client.close()
        figures = catalogs[0].commands.decision_writer.approval_hooks.metrics
    expected = {("judge0", "allow"): 1, ("judge0", "refuse"): 1, ("judge0", "failure"): 1, ("judge0", "hold"): 1}
    assert expected == dict(figures.verdicts)
    assert figures.seconds["judge0"] > 0
