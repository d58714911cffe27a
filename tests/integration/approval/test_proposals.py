"""Proposals: a held change is approved, rejected or expires. It takes effect once or never."""

import asyncio
import copy
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.api.api_request import BODY_BUDGET
from icecore.approval.contract import ALLOW, Hold, Refuse
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.offload import is_large_request
from icecore.commands.proposals.approve_proposal import EXECUTED_BY, ApproveProposal, approve_proposal
from icecore.commands.proposals.expire_proposals import ExpiryJob
from icecore.commands.proposals.proposals import Proposals
from icecore.compose import Application
from icecore.domain.errors import InternalError
from icecore.domain.proposal import ProposalState, ProposalStatus
from icecore.domain.stored_commands import WAITING_COMMANDS
from icecore.projections import proposals
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.rest_client import SCHEMA, RestResponse, identifier, set_properties, table_path, view_path, view_version
from tests.fixtures.waiting import wait_for
from tests.integration.approval.judging import Approver, Judge, asking, held

HOLD = Hold("somebody should look", 60.0)


def rows(server: CatalogServer, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def properties(client: Approver) -> dict[str, str]:
    found: dict[str, str] = client.load_table(["a"], "t").json["metadata"]["properties"]
    return found


def hold_commit(client: Approver, judge: Judge, **updates: str) -> str:
    judge.always(HOLD)
    return held(client.commit(["a"], "t", set_properties(**updates)))


async def checked(dsn: str) -> None:
    """Verify, rebuild, verify: no difference, and no new event."""
    before = await verify(dsn)
    await rebuild(dsn)
    after = await verify(dsn)
    assert ([], []) == (before.differences, after.differences)
    # A purge may still be running.
    assert before.head != after.head or (before.rows, before.claims) == (after.rows, after.claims)


def test_a_change_waits_and_is_approved(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """Nothing is visible before. Then the change is, with the approval as the last event of the same command."""
    proposal_id = hold_commit(client, judge, k="v")
    assert "k" not in properties(client)
    proposal = client.proposal(proposal_id)
    assert ("open", "updateTable", "judge0", "somebody should look", "anonymous") == tuple(
        proposal[name] for name in ("status", "operation", "hook", "reason", "proposed-by")
    )
    assert [("table", ["a", "t"])] == [(each["kind"], each["name"]) for each in proposal["objects"]]
    commit = {"table": identifier(["a"], "t"), "requirements": [], "updates": [set_properties(k="v")]}
    assert commit == proposal["command"]
    response = client.approve(proposal_id)
    assert (200, "approved", "anonymous") == (response.status, response.json["status"], response.json["decided-by"])
    assert "v" == properties(client)["k"]
    assert response.json == client.proposal(proposal_id)
    columns = "topic, command_id, notification_id, causation_id"
    last = rows(server, f"select {columns} from icecore.events order by notification_id desc limit 2")
    (opened,) = rows(server, "select event_id from icecore.events where topic = 'proposal.opened.v1'")
    assert ["proposal.approved.v1", "table.committed.v1"] == [topic for topic, *_ in last]
    assert last[0][1] == last[1][1]
    assert [opened[0]] * 2 == [causation_id for *_, causation_id in last]
    assert response.position == last[0][2]
    asyncio.run(checked(server.dsn))


def calls() -> dict[str, tuple[str, str, Any, Any]]:
    """A request of every operation that can be held, and a request that must succeed once it is approved (None: 404)."""
    t, v = table_path(["a"], "t"), view_path(["a"], "v")
    commit = {"requirements": [], "updates": [set_properties(k="v")]}
    view = {"name": "w", "schema": SCHEMA, "view-version": view_version("select 2"), "properties": {}}
    return {
        "createNamespace": ("POST", "/namespaces", {"namespace": ["n"], "properties": {"p": "1"}}, ("/namespaces/n", True)),
        "updateProperties": ("POST", "/namespaces/a/properties", {"updates": {"k": "v"}, "removals": []}, ("/namespaces/a", True)),
        "dropNamespace": ("DELETE", "/namespaces/empty", None, ("/namespaces/empty", False)),
        "createTable": ("POST", "/namespaces/a/tables", {"name": "u", "schema": SCHEMA}, (table_path(["a"], "u"), True)),
        "updateTable": ("POST", t, commit, (t, True)),
        "dropTable": ("DELETE", f"{t}?purgeRequested=True", None, (t, False)),
        "unregisterTable": ("POST", f"{t}/unregister", None, (t, False)),
        "renameTable": (
            "POST",
            "/tables/rename",
            {"source": identifier(["a"], "t"), "destination": identifier(["empty"], "s")},
            (table_path(["empty"], "s"), True),
        ),
        "commitTransaction": (
            "POST",
            "/transactions/commit",
            {"table-changes": [{"identifier": identifier(["a"], "t"), **commit}]},
            (t, True),
        ),
        "createView": ("POST", "/namespaces/a/views", view, (view_path(["a"], "w"), True)),
        "replaceView": ("POST", v, commit, (v, True)),
        "renameView": (
            "POST",
            "/views/rename",
            {"source": identifier(["a"], "v"), "destination": identifier(["a"], "x")},
            (view_path(["a"], "x"), True),
        ),
        "dropView": ("DELETE", v, None, (v, False)),
    }


@pytest.mark.parametrize("operation", calls())
def test_every_operation_can_wait(client: Approver, judge: Judge, server: CatalogServer, operation: str) -> None:
    """The whole command is stored and executed."""
    client.create_namespace("empty")
    client.create_view(["a"], "v")
    method, path, body, (address, there) = calls()[operation]
    before = client.call("GET", address)
    judge.always(HOLD)
    proposal_id = held(client.call(method, path, body))
    assert (before.status, before.body) == (client.call("GET", address).status, client.call("GET", address).body)
    assert operation == client.proposal(proposal_id)["operation"]
    assert 200 == client.approve(proposal_id).status
    after = client.call("GET", address)
    assert there == (after.status == 200)
    assert before.body != after.body
    if operation == "dropTable":
        dropped = rows(server, "select convert_from(state, 'UTF8') from icecore.events where topic = 'table.dropped.v1'")
        assert [('{"purge-requested":true}',)] == dropped
    asyncio.run(checked(server.dsn))


@pytest.mark.parametrize("options", ["", "&purge=true", "&force=true"])
@pytest.mark.parametrize("namespace", ["a", "empty"])
def test_a_recursive_drop_can_wait(client: Approver, judge: Judge, server: CatalogServer, namespace: str, options: str) -> None:
    """A tree with content, and one without."""
    client.create_namespace("empty")
    judge.always(HOLD)
    proposal_id = held(client.call("DELETE", f"/namespaces/{namespace}?recursive=true{options}"))
    assert 200 == client.call("GET", f"/namespaces/{namespace}").status
    approved = client.approve(proposal_id)
    assert 200 == approved.status, approved.body
    assert 404 == client.call("GET", f"/namespaces/{namespace}").status
    asyncio.run(checked(server.dsn))


def test_what_a_client_sent_beside_the_request_is_not_kept(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """Members that no operation reads may contain anything."""
    judge.always(HOLD)
    body = {"requirements": [], "updates": [set_properties(k="v")], "token": "a secret that went astray"}
    held(client.call("POST", table_path(["a"], "t"), body))
    assert [(0,)] == rows(server, "select count(*) from icecore.events where position('astray' in encode(state, 'escape')) > 0")


SECRET = {"s3.secret-access-key": "went-astray"}
SECRETS = {
    "createNamespace": ("/namespaces", {"namespace": ["n"], "properties": SECRET}),
    "updateProperties": ("/namespaces/a/properties", {"updates": SECRET, "removals": []}),
    "createTable": ("/namespaces/a/tables", {"name": "u", "schema": SCHEMA, "properties": SECRET}),
    "createView": ("/namespaces/a/views", {"name": "w", "schema": SCHEMA, "view-version": view_version("select 2"), "properties": SECRET}),
    "updateTable": (table_path(["a"], "t"), {"requirements": [], "updates": [set_properties(SECRET)]}),
    "replaceView": (view_path(["a"], "v"), {"requirements": [], "updates": [set_properties(SECRET)]}),
    "commitTransaction": (
        "/transactions/commit",
        {"table-changes": [{"identifier": identifier(["a"], "t"), "requirements": [], "updates": [set_properties(SECRET)]}]},
    ),
}
TAKEN_BACK = {"action": "remove-properties", "removals": [*SECRET]}


def refused_and_nowhere(client: Approver, server: CatalogServer, path: str, body: Any) -> None:
    assert (400, "BadRequestException") == client.call("POST", path, body).error
    assert [] == client.proposals()
    assert [(0,)] == rows(server, "select count(*) from icecore.events where position('astray' in encode(state, 'escape')) > 0")


@pytest.mark.parametrize("operation", SECRETS)
def test_a_credential_does_not_wait(client: Approver, judge: Judge, server: CatalogServer, operation: str) -> None:
    """It is refused as without hooks, before any hook is asked."""
    client.create_view(["a"], "v")
    judge.shown.clear()
    judge.always(HOLD)
    refused_and_nowhere(client, server, *SECRETS[operation])
    assert [] == judge.shown


@pytest.mark.parametrize("member", ["updates", "updated"])
@pytest.mark.parametrize("operation", ["updateTable", "replaceView", "commitTransaction"])
def test_a_credential_that_a_change_takes_back_does_not_wait(
    client: Approver, judge: Judge, server: CatalogServer, operation: str, member: str
) -> None:
    """It would be in no state, but in the stored command. Both names of the member are checked."""
    client.create_view(["a"], "v")
    path, body = SECRETS[operation]
    body = copy.deepcopy(body)
    for change in body.get("table-changes", [body]):
        change["updates"] = [{"action": "set-properties", member: SECRET}, TAKEN_BACK, set_properties(k="v")]
    assert 2 == client.call("POST", path, body).status // 100, "nothing is held"
    judge.always(HOLD)
    refused_and_nowhere(client, server, path, {**body, "again": True})


def test_what_waits_is_listed_without_its_command(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """Commands may be large, so only loading a proposal reads its command."""
    proposal_id = hold_commit(client, judge, k="v" * 900_000)
    loaded = client.proposal(proposal_id)
    assert loaded.pop("command")["updates"]

    async def read(status: ProposalStatus | None) -> list[ProposalState]:
        async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
            page, more = await proposals.read_page(
                connection, project_id=PROJECT_ID, warehouse_id=None, status=status, as_of=None, after=None, size=10
            )
            assert not more
            return page

    for status, query in ((None, ""), ("open", "?status=open")):
        assert [{}] == [each.command for each in asyncio.run(read(status))]
        assert [loaded] == client.proposals(query)


def test_a_large_change_cannot_wait(client: Approver, judge: Judge) -> None:
    judge.always(HOLD)
    properties_sent = {f"k{number}": "v" * 400_000 for number in range(3)}
    refusal = client.commit(["a"], "t", set_properties(properties_sent))
    assert (409, "ChangeRefusedException") == refusal.error
    assert "somebody should look; a change of more than 1048576 bytes cannot wait for approval" in refusal.message
    assert [] == client.proposals()


def test_the_same_change_waits_once(client: Approver, judge: Judge) -> None:
    """However often it is sent, also concurrently. Another change has another proposal."""
    proposal_id = hold_commit(client, judge, k="v")
    body = {"requirements": [], "updates": [set_properties(k="v")]}
    responses = client.together([("POST", table_path(["a"], "t"), body, None)] * 6)
    assert {proposal_id} == {held(response) for response in responses}
    assert proposal_id != hold_commit(client, judge, k="w")
    assert 2 == len(client.proposals())
    # Sent concurrently for the first time.
    body = {"requirements": [], "updates": [set_properties(k="x")]}
    responses = client.together([("POST", table_path(["a"], "t"), body, None)] * 8)
    assert 1 == len({held(response) for response in responses})
    # After the decision, the same change opens a new proposal.
    client.reject(proposal_id)
    assert proposal_id != hold_commit(client, judge, k="v")


def test_a_held_change_is_remembered_by_its_key(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """The same refusal byte for byte, with the proposal's id in its header, also after the decision."""
    judge.always(HOLD)
    key, body = uuid7(), {"requirements": [], "updates": [set_properties(k="v")]}

    def send() -> RestResponse:
        return client.call("POST", table_path(["a"], "t"), body, key=key)

    first = send()
    proposal_id = held(first)
    client.approve(proposal_id)
    judge.say = None
    assert (first.replayable, proposal_id) == (send().replayable, held(send()))
    # A second key for the same change refers to the open proposal.
    judge.always(HOLD)
    waiting = held(client.commit(["a"], "t", set_properties(k="w")))
    second, same = uuid7(), {"requirements": [], "updates": [set_properties(k="w")]}
    other = client.call("POST", table_path(["a"], "t"), same, key=second)
    assert waiting == held(other)
    # It is stored too, although it opened none.
    client.approve(waiting)
    judge.say = None
    assert other.replayable == client.call("POST", table_path(["a"], "t"), same, key=second).replayable
    asyncio.run(checked(server.dsn))


def test_two_requests_with_one_key_at_once_are_held_once(
    client: Approver, judge: Judge, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one loses the race and gets the first one's proposal."""
    judge.always(HOLD)
    key, body = uuid7(), {"requirements": [], "updates": [set_properties(k="v")]}
    open_for, arrived = Proposals._open_for, []

    async def together(self: Proposals, *asked: Any) -> ProposalState | None:
        found = await open_for(self, *asked)
        arrived.append(found)
        while len(arrived) < 2:
            await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(Proposals, "_open_for", together)
    with ThreadPoolExecutor(2) as pool:
        twins = [pool.submit(client.call, "POST", table_path(["a"], "t"), body, key=key) for _ in range(2)]
        first, second = (twin.result() for twin in twins)
    assert [None, None] == arrived
    assert first.replayable == second.replayable
    assert "open" == client.proposal(held(first))["status"]
    assert [(1,)] == rows(server, "select count(*) from icecore.events where topic = 'proposal.opened.v1'")


def test_a_rejected_change_never_happens(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """The reason is stored, and no other decision is possible."""
    proposal_id = hold_commit(client, judge, k="v")
    response = client.reject(proposal_id, "the consumers are not ready")
    assert (200, "rejected", "the consumers are not ready") == (response.status, response.json["status"], response.json["decision-reason"])
    for late in (client.approve(proposal_id), client.reject(proposal_id)):
        assert (409, "ProposalClosedException") == late.error
        assert f"Proposal {proposal_id} is rejected" == late.message
    assert "k" not in properties(client)
    asyncio.run(checked(server.dsn))


def test_what_stands_in_the_way_may_go_again(client: Approver, judge: Judge) -> None:
    """If the change is refused on the current state, so is the approval, and the proposal stays open."""
    judge.always(HOLD)
    proposal_id = held(client.create_table(["a"], "u"))
    judge.say = None
    client.create_view(["a"], "u")
    refused = client.approve(proposal_id)
    assert (409, "AlreadyExistsException") == refused.error
    assert "open" == client.proposal(proposal_id)["status"]
    assert 204 == client.call("DELETE", view_path(["a"], "u")).status
    assert 200 == client.approve(proposal_id).status
    assert ["t", "u"] == client.table_names("a")


def test_a_hook_may_still_refuse_at_the_approval(client: Approver, judge: Judge) -> None:
    """It gets the id of the proposal. A hold counts as an allow."""
    proposal_id = hold_commit(client, judge, k="v")
    judge.always(Refuse("the freeze began"))
    assert (409, "ChangeRefusedException") == client.approve(proposal_id).error
    assert "open" == client.proposal(proposal_id)["status"]
    judge.shown.clear()
    judge.always(HOLD)
    assert 200 == client.approve(proposal_id).status
    assert [(proposal_id, "updateTable")] == [(str(change.approves), change.operation) for change in judge.shown]


def test_an_approval_that_finds_nothing_left_to_do(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """Another request made the same change. The proposal is stale, and nothing changes."""
    body = {"updates": {"k": "v"}, "removals": []}
    judge.always(HOLD)
    proposal_id = held(client.call("POST", "/namespaces/a/properties", body))
    judge.say = None
    client.call("POST", "/namespaces/a/properties", body)
    assert (409, "ProposalClosedException") == client.approve(proposal_id).error
    changes = "select count(*) from icecore.events where topic = 'namespace.properties-changed.v1'"
    assert [(1,)] == rows(server, changes)
    assert "stale" == client.proposal(proposal_id)["status"]


@pytest.mark.parametrize("operation", ["updateTable", "createTable", "renameTable", "dropTable"])
def test_two_approvers_change_it_once(client: Approver, judge: Judge, server: CatalogServer, operation: str) -> None:
    """Of many concurrent approvals, one succeeds, and the others get ProposalClosed."""
    client.create_namespace("empty")
    count = "select count(*) from icecore.events where topic not in ('task.deletion-begun.v1', 'table.purged.v1')"
    for _ in range(4):
        judge.say = None
        client.create_table(["a"], "t")
        method, path, body, _ = calls()[operation]
        judge.always(HOLD)
        proposal_id = held(client.call(method, path, body))
        before = rows(server, count)[0][0]
        with ThreadPoolExecutor(6) as threads:
            responses = list(threads.map(lambda _: client.approve(proposal_id), range(6)))  # noqa: B023 - ends before the next turn
        assert [200] + [409] * 5 == sorted(response.status for response in responses)
        assert {"ProposalClosedException"} == {response.error[1] for response in responses if response.status == 409}
        assert 2 == rows(server, count)[0][0] - before
        judge.say = None
        client.drop_table(["a"], "u")
        client.drop_table(["empty"], "s")
        client.drop_table(["a"], "t")
    asyncio.run(checked(server.dsn))


def test_approving_and_rejecting_at_once(client: Approver, judge: Judge) -> None:
    """One of them succeeds, and the table's state agrees with it."""
    for number in range(6):
        proposal_id = hold_commit(client, judge, k=f"v{number}")
        with ThreadPoolExecutor(2) as threads:
            responses = [threads.submit(client.approve, proposal_id), threads.submit(client.reject, proposal_id)]
            approved, rejected = (response.result() for response in responses)
        assert [200, 409] == sorted((approved.status, rejected.status))
        assert (approved.status == 200) == (properties(client).get("k") == f"v{number}")


def test_a_key_approves_once(client: Approver, judge: Judge) -> None:
    """The same response, byte for byte. Another request with the key is refused."""
    first, second = hold_commit(client, judge, k="v"), hold_commit(client, judge, k="w")
    key, other = uuid7(), uuid7()
    response = client.approve(first, key=key)
    assert response.replayable == client.approve(first, key=key).replayable
    assert 200 == response.status
    assert (422, "UnprocessableEntityException") == client.approve(second, key=key).error
    assert client.reject(second, key=other).replayable == client.reject(second, key=other).replayable
    # A refusal is stored too.
    late = uuid7()
    assert client.approve(second, key=late).replayable == client.approve(second, key=late).replayable


def test_a_proposal_expires(database: str, tmp_path: Path, judge: Judge) -> None:
    """An expired proposal is refused before the job closes it. The job records the expiry, and the same change may be requested again."""
    catalogs: list[Application] = []

    def prepare(catalog: Application) -> None:
        asking(judge)(catalog)
        catalogs.append(catalog)

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare, jobs=False) as server:
        client = Approver(server.url)
        client.create_namespace("a")
        client.create_table(["a"], "t")
        judge.always(Hold("quick", 0.3))
        first = held(client.commit(["a"], "t", set_properties(k="v")))
        second = held(client.commit(["a"], "t", set_properties(k="w")))
        wait_for(lambda: client.proposal(second)["expires-at"] < datetime.now(UTC).isoformat())
        assert (409, "ProposalClosedException") == client.approve(first).error
        assert "expired at" in client.approve(first).message
        assert (409, "ProposalClosedException") == client.reject(first).error
        assert "open" == client.proposal(first)["status"], "no job runs"
        # A new request opens a new proposal and closes the old one.
        judge.always(HOLD)
        third = held(client.commit(["a"], "t", set_properties(k="v")))
        assert third != first
        assert ("expired", "open") == (client.proposal(first)["status"], client.proposal(third)["status"])
        closed = asyncio.run(_expire(server.dsn, tmp_path))
        assert 1 == closed
        assert ["expired", "expired", "open"] == [client.proposal(each)["status"] for each in (first, second, third)]
        assert (409, "ProposalClosedException") == client.approve(second).error
        client.close()
    asyncio.run(checked(database))


async def _expire(dsn: str, folder: Path) -> int:
    async with opened_catalog(dsn, folder / "warehouse") as catalog:
        return await ExpiryJob(catalog.commands).run_once()


def test_the_servers_own_job_closes_what_is_due(client: Approver, judge: Judge) -> None:
    """On a running server."""
    judge.always(Hold("quick", 0.05))
    proposal_id = held(client.commit(["a"], "t", set_properties(k="v")))
    wait_for(lambda: client.proposal(proposal_id)["status"] == "expired")


def test_every_command_that_can_wait_is_executed() -> None:
    """With the function that the API calls."""
    assert EXECUTED_BY.keys() == WAITING_COMMANDS
    assert {calls_it.__name__ for calls_it in EXECUTED_BY.values()} == {
        re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower() for command in WAITING_COMMANDS
    }


def test_a_command_that_cannot_be_read_is_not_guessed_at(client: Approver, judge: Judge, server: CatalogServer, tmp_path: Path) -> None:
    """A stored command in an unknown form is an internal error. The proposal is unchanged."""
    proposal_id = hold_commit(client, judge, k="v")

    async def approve_another_form() -> None:
        async with opened_catalog(server.dsn, tmp_path / "warehouse") as catalog:
            state = await catalog.commands.proposals.load(UUID(proposal_id))
            warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
            other = ApproveProposal(replace(state, command={**state.command, "more": 1}))
            with pytest.raises(InternalError, match="CommitTable must be stored with the members"):
                await approve_proposal(catalog.commands, context("approveProposal"), warehouse, other)

    asyncio.run(approve_another_form())
    assert "open" == client.proposal(proposal_id)["status"]


def test_lists_are_paged_and_filtered(client: Approver, judge: Judge) -> None:
    """In the order of opening, by status and warehouse, and as of a position."""
    ids = [hold_commit(client, judge, k=str(number)) for number in range(5)]
    position = client.approve(ids[1]).position
    client.reject(ids[3])
    assert ids == [each["id"] for each in client.proposals()]
    assert [ids[0], ids[2], ids[4]] == [each["id"] for each in client.proposals("?status=open")]
    assert [ids[1]] == [each["id"] for each in client.proposals("?status=approved")]
    assert [ids[3]] == [each["id"] for each in client.proposals("?status=rejected&warehouse=demo")]
    assert [ids[0], ids[2], ids[3], ids[4]] == [each["id"] for each in client.proposals(f"?status=open&warehouse=demo@{position}")]
    for query in ("?pageSize=2", "?pageSize=2&status=open"):
        pages, token = [], ""
        while token is not None:
            page = client.manage("GET", f"/proposals{query}&pageToken={token}").json
            assert len(page["proposals"]) <= 2
            pages += [each["id"] for each in page["proposals"]]
            token = page["next-page-token"]
        assert pages == [each["id"] for each in client.proposals(query.replace("pageSize=2", ""))]
    assert "command" not in client.proposals()[0]


def test_a_page_ends_where_its_proposals_are_large(client: Approver, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres parses each to leave out its command. Ten thousand of 1 MB would exceed the time limit of a statement."""
    monkeypatch.setattr(proposals, "LISTED_BYTES_MAX", 500_000)
    ids = [hold_commit(client, judge, k=str(number) + "v" * 200_000) for number in range(4)]
    ids += [hold_commit(client, judge, k=str(number)) for number in range(2)]
    for query in ("", "?pageSize=5", "?pageSize=3", "?status=open"):
        sizes, loaded, token = [], [], ""
        while token is not None:
            page = client.manage("GET", f"/proposals{query}{'&' if query else '?'}pageToken={token}").json
            sizes.append(len(page["proposals"]))
            loaded += [each["id"] for each in page["proposals"]]
            token = page["next-page-token"]
        assert ids == loaded
        assert [3, 3] == sizes, query


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("GET", "/proposals/no-id", None, (404, "NoSuchProposalException")),
        ("GET", "/proposals/01890a5d-ac96-774b-bcce-b302099a8057", None, (404, "NoSuchProposalException")),
        ("POST", "/proposals/01890a5d-ac96-774b-bcce-b302099a8057/approve", None, (404, "NoSuchProposalException")),
        ("POST", "/proposals/01890a5d-ac96-774b-bcce-b302099a8057/reject", {"reason": "x"}, (404, "NoSuchProposalException")),
        ("GET", "/proposals?status=broken", None, (400, "BadRequestException")),
        ("GET", "/proposals?warehouse=nowhere", None, (404, "NoSuchWarehouseException")),
        ("GET", "/proposals?warehouse=%00", None, (400, "BadRequestException")),
        ("GET", "/proposals?warehouse=a%00@1", None, (400, "BadRequestException")),
        ("GET", "/proposals?pageToken=broken", None, (400, "BadRequestException")),
        ("DELETE", "/proposals/01890a5d-ac96-774b-bcce-b302099a8057", None, (405, "MethodNotAllowedException")),
    ],
)
def test_what_cannot_be_meant(client: Approver, method: str, path: str, body: Any, error: tuple[int, str]) -> None:
    assert error == client.manage(method, path, body).error


@pytest.mark.parametrize("body", [None, {}, {"reason": "  "}, {"reason": 7}, {"reason": "x" * 2_001}, b"no json"])
def test_a_rejection_has_a_reason(client: Approver, judge: Judge, body: Any) -> None:
    """It must not be blank or too long."""
    proposal_id = hold_commit(client, judge, k="v")
    response = client.manage("POST", f"/proposals/{proposal_id}/reject", body)
    assert (400, "BadRequestException") == response.error
    assert "open" == client.proposal(proposal_id)["status"]


def test_hooks_are_gone_and_proposals_stay(database: str, tmp_path: Path, judge: Judge) -> None:
    """A server without hooks can approve existing proposals."""
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge)) as server:
        client = Approver(server.url)
        client.create_namespace("a")
        client.create_table(["a"], "t")
        proposal_id = hold_commit(client, judge, k="v")
        client.close()
    with served_catalog(database, tmp_path / "warehouse") as server:
        client = Approver(server.url)
        assert 200 == client.approve(proposal_id).status
        assert "v" == properties(client)["k"]
        client.close()
    assert judge.say is not None
    assert ALLOW != judge.say(None)  # type: ignore[arg-type]


def test_a_large_change_takes_room_again_when_its_proposal_is_read(
    database: str, tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the body. If there is no memory, nothing is parsed, and the response is 429. The memory is released."""
    opened: list[Application] = []

    def prepare(catalog: Application) -> None:
        opened.append(catalog)
        asking(judge)(catalog)

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client, budget = Approver(server.url), opened[0].app[BODY_BUDGET]
        assert 200 == client.create_namespace("a").status
        judge.always(HOLD)
        proposal_id = held(client.create_table(["a"], "t", properties={f"p{number}": "" for number in range(5_000)}))
        judge.say = None
        assert 0 == budget.reserved_bytes
        budget.reserve(2**40)
        for response in (client.approve(proposal_id), client.reject(proposal_id), client.manage("GET", f"/proposals/{proposal_id}")):
            assert (429, "TooManyRequestsException") == response.error
        budget.release(2**40)
        assert 5_000 == len(client.proposal(proposal_id)["command"]["properties"])
        assert 0 == budget.reserved_bytes
        # It is decided where a request of this size would be.
        executor, decided_large = opened[0].commands, []
        execute = executor.execute

        async def watched(handler: Any) -> CommandResponse:
            decided_large.append(is_large_request(handler.context))
            return await execute(handler)

        monkeypatch.setattr(executor, "execute", watched)
        assert 200 == client.approve(proposal_id).status
        assert [True] == decided_large
        assert 0 == budget.reserved_bytes
        assert 5_000 < len(client.load_table(["a"], "t").json["metadata"]["properties"])
        client.close()
