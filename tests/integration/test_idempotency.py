"""Idempotency-Keys on every mutation: one effect, and the same response byte for byte, whatever has happened since."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
from uuid_utils.compat import uuid7

from icecore import compose
from tests.fixtures.catalog import opened_catalog, served_catalog
from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, namespace_path, set_properties, table_path, view_path, view_version
from tests.fixtures.shared_server import SharedCatalog, shared

Request = tuple[str, str, Any]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation of the API.

    prepare -- creates what it needs and returns the request.
    succeeds -- its status.
    other -- the same operation with different arguments.
    moved_on -- changes to its object afterwards.
    refused -- a request of the operation that is refused, with its status.
    possible -- the change that makes the refused request succeed.
    events -- how many it adds to the log.
    """

    prepare: Callable[[RestClient], Request]
    succeeds: int
    other: Callable[[Request], Request]
    moved_on: Callable[[RestClient], list[RestResponse]]
    refused: Callable[[RestClient], Request]
    refused_status: int
    possible: Callable[[RestClient], list[RestResponse]]
    events: int = 1


CREATE_UPDATES: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": "3b0ee7cb-6f0c-4b3f-bf4c-17a3e2dcd8f1"},
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]
TABLES, VIEWS = "/namespaces/a/tables", "/namespaces/a/views"


def table_body(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, **fields}


def view_body(name: str) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "view-version": view_version("select 1"), "properties": {}}


def commit_body(**properties: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [set_properties(**properties)]}


def with_body(**fields: Any) -> Callable[[Request], Request]:
    """The same request with some fields changed."""
    return lambda request: (request[0], request[1], {**request[2], **fields})


def at_path(path: str) -> Callable[[Request], Request]:
    return lambda request: (request[0], path, request[2])


def after_table(client: RestClient) -> list[RestResponse]:
    """The table `t` is committed to, renamed and dropped."""
    return [
        client.commit(["a"], "t", set_properties(later="1")),
        client.rename_table((["a"], "t"), (["a"], "elsewhere")),
        client.commit(["a"], "elsewhere", set_properties(later="2")),
        client.drop_table(["a"], "elsewhere"),
    ]


def after_view(client: RestClient) -> list[RestResponse]:
    return [
        client.call("POST", view_path(["a"], "t"), commit_body(later="1")),
        client.rename_view((["a"], "t"), (["a"], "elsewhere")),
        client.call("DELETE", view_path(["a"], "elsewhere")),
    ]


def taken_again(client: RestClient) -> list[RestResponse]:
    """Another table takes the name."""
    return [client.create_table(["a"], "t", properties={"another": "one"})]


def nothing(client: RestClient) -> list[RestResponse]:
    return []


def made(request: Request, *steps: Callable[[RestClient], RestResponse]) -> Callable[[RestClient], Request]:
    """Runs the steps, then returns the request."""

    def prepare(client: RestClient) -> Request:
        for step in steps:
            assert step(client).status < 300
        return request

    return prepare


def a_table(client: RestClient) -> RestResponse:
    return client.create_table(["a"], "t")


def a_view(client: RestClient) -> RestResponse:
    return client.create_view(["a"], "t")


def registration(path: str, make: Callable[[RestClient], RestResponse], tail: str, **fields: Any) -> Callable[[RestClient], Request]:
    """Registers the file of a former table or view."""

    def prepare(client: RestClient) -> Request:
        location = make(client).json["metadata-location"]
        if not fields:
            assert client.call("DELETE", f"/namespaces/a/{tail}/t").status == 204
        return "POST", path, {"name": "t", "metadata-location": location, **fields}

    return prepare


def registration_of_a_name(
    path: str, make: Callable[[RestClient], RestResponse], tail: str, *, taken: bool = True, **fields: Any
) -> Callable[[RestClient], Request]:
    """Registers the file of a dropped object under its name, which another one has if `taken`."""

    def prepare(client: RestClient) -> Request:
        request = registration(path, make, tail)(client)
        if taken:
            assert make(client).status == 200
        return (*request[:2], {**request[2], **fields})

    return prepare


def makes(*steps: Callable[[RestClient], RestResponse]) -> Callable[[RestClient], list[RestResponse]]:
    return lambda client: [step(client) for step in steps]


def deletes(path: str) -> Callable[[RestClient], list[RestResponse]]:
    return lambda client: [client.call("DELETE", path)]


def a_namespace(name: str) -> Callable[[RestClient], list[RestResponse]]:
    return lambda client: [client.create_namespace(name)]


def another_schema(client: RestClient) -> list[RestResponse]:
    """The table `t` has a second schema, which is current."""
    column = {"id": 9, "name": "later", "required": False, "type": "long"}
    schema = {"type": "struct", "schema-id": 1, "fields": [*SCHEMA["fields"], column]}
    return [client.commit(["a"], "t", {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1})]


def create_in_a_taken_place(client: RestClient) -> Request:
    return "POST", TABLES, table_body("u", location=a_table(client).json["metadata"]["location"])


def create_commit(client: RestClient) -> Request:
    """The commit that completes a staged create."""
    location = client.create_table(["a"], "staged", **{"stage-create": True}).json["metadata"]["location"]
    updates = [*CREATE_UPDATES, {"action": "set-location", "location": location}]
    return "POST", table_path(["a"], "t"), {"requirements": [{"type": "assert-create"}], "updates": updates}


def create_commit_of_a_table(client: RestClient) -> Request:
    assert a_table(client).status == 200
    return create_commit(client)


def rename_body(source: str, destination: str) -> dict[str, Any]:
    return {"source": {"namespace": ["a"], "name": source}, "destination": {"namespace": ["a"], "name": destination}}


def transaction_body(name: str, **properties: str) -> dict[str, Any]:
    return {"table-changes": [{"identifier": {"namespace": ["a"], "name": name}, **commit_body(**properties)}]}


LATER_SCHEMA = {"type": "assert-current-schema-id", "current-schema-id": 1}
NO_TABLE, NO_VIEW = deletes(table_path(["a"], "t")), deletes(view_path(["a"], "t"))

MUTATIONS: dict[str, Mutation] = {
    "createNamespace": Mutation(
        made(("POST", "/namespaces", {"namespace": ["n"], "properties": {"k": "v"}})),
        200,
        with_body(properties={"k": "w"}),
        lambda client: [client.call("POST", "/namespaces/n/properties", {"updates": {"k": "x"}}), client.call("DELETE", "/namespaces/n")],
        made(("POST", "/namespaces", {"namespace": ["a"]})),
        409,
        deletes("/namespaces/a"),
    ),
    "updateProperties": Mutation(
        made(("POST", "/namespaces/a/properties", {"updates": {"k": "v"}, "removals": ["absent"]})),
        200,
        with_body(removals=[]),
        lambda client: [client.call("POST", "/namespaces/a/properties", {"updates": {"absent": "1"}, "removals": ["k"]})],
        made(("POST", "/namespaces/n/properties", {"updates": {"k": "v"}})),
        404,
        a_namespace("n"),
    ),
    "dropNamespace": Mutation(
        made(("DELETE", "/namespaces/n", None), lambda client: client.create_namespace("n")),
        204,
        at_path("/namespaces/other"),
        lambda client: [client.create_namespace("n")],
        made(("DELETE", "/namespaces/n", None)),
        404,
        a_namespace("n"),
    ),
    "createTable": Mutation(
        made(("POST", TABLES, table_body("t"))),
        200,
        with_body(name="other"),
        after_table,
        made(("POST", TABLES, table_body("t")), a_table),
        409,
        NO_TABLE,
    ),
    "createTable staged": Mutation(
        made(("POST", TABLES, table_body("t", **{"stage-create": True}))),
        200,
        with_body(**{"stage-create": False}),
        taken_again,
        made(("POST", TABLES, table_body("t", **{"stage-create": True})), a_table),
        409,
        NO_TABLE,
        events=0,
    ),
    "createTable in a place": Mutation(
        made(("POST", TABLES, table_body("t"))),
        200,
        with_body(name="other"),
        after_table,
        create_in_a_taken_place,
        400,
        NO_TABLE,
    ),
    "registerTable": Mutation(
        registration("/namespaces/a/register", a_table, "tables"),
        200,
        with_body(name="other"),
        after_table,
        registration_of_a_name("/namespaces/a/register", a_table, "tables"),
        409,
        NO_TABLE,
    ),
    "registerTable overwrite": Mutation(
        registration("/namespaces/a/register", a_table, "tables", overwrite=True),
        200,
        with_body(overwrite=False),
        after_table,
        registration_of_a_name("/namespaces/b/register", a_table, "tables", taken=False, overwrite=True),
        404,
        a_namespace("b"),
    ),
    "updateTable": Mutation(
        made(("POST", table_path(["a"], "t"), commit_body(k="v")), a_table),
        200,
        with_body(updates=[set_properties(k="w")]),
        after_table,
        made(("POST", table_path(["a"], "t"), {**commit_body(k="v"), "requirements": [LATER_SCHEMA]}), a_table),
        409,
        another_schema,
    ),
    "updateTable unchanged": Mutation(
        made(("POST", table_path(["a"], "t"), {"requirements": [], "updates": []}), a_table),
        200,
        with_body(updates=[set_properties(k="w")]),
        after_table,
        made(("POST", table_path(["a"], "t"), {"requirements": [], "updates": []})),
        404,
        makes(a_table),
        events=0,
    ),
    "updateTable creates": Mutation(
        create_commit,
        200,
        with_body(updates=[*CREATE_UPDATES, set_properties(k="w")]),
        after_table,
        create_commit_of_a_table,
        409,
        NO_TABLE,
    ),
    "commitTransaction": Mutation(
        made(("POST", "/transactions/commit", transaction_body("t", k="v")), a_table),
        204,
        lambda request: (*request[:2], transaction_body("t", k="w")),
        after_table,
        made(("POST", "/transactions/commit", transaction_body("t", k="v"))),
        404,
        makes(a_table),
    ),
    "dropTable": Mutation(
        made(("DELETE", table_path(["a"], "t"), None), a_table),
        204,
        at_path(f"{table_path(['a'], 't')}?purgeRequested=true"),
        taken_again,
        made(("DELETE", table_path(["a"], "t"), None)),
        404,
        makes(a_table),
    ),
    "unregisterTable": Mutation(
        made(("POST", f"{table_path(['a'], 't')}/unregister", None), a_table),
        200,
        at_path(f"{table_path(['a'], 'u')}/unregister"),
        taken_again,
        made(("POST", f"{table_path(['a'], 't')}/unregister", None)),
        404,
        makes(a_table),
    ),
    "renameTable": Mutation(
        made(("POST", "/tables/rename", rename_body("t", "u")), a_table),
        204,
        with_body(destination={"namespace": ["a"], "name": "other"}),
        lambda client: [client.drop_table(["a"], "u"), client.create_table(["a"], "t")],
        made(("POST", "/tables/rename", rename_body("t", "u"))),
        404,
        makes(a_table),
    ),
    "createView": Mutation(
        made(("POST", VIEWS, view_body("t"))),
        200,
        with_body(name="other"),
        after_view,
        made(("POST", VIEWS, view_body("t")), a_view),
        409,
        NO_VIEW,
    ),
    "registerView": Mutation(
        registration("/namespaces/a/register-view", a_view, "views"),
        200,
        with_body(name="other"),
        after_view,
        registration_of_a_name("/namespaces/a/register-view", a_view, "views"),
        409,
        NO_VIEW,
    ),
    "replaceView": Mutation(
        made(("POST", view_path(["a"], "t"), commit_body(k="v")), a_view),
        200,
        with_body(updates=[set_properties(k="w")]),
        after_view,
        made(("POST", view_path(["a"], "t"), commit_body(k="v"))),
        404,
        makes(a_view),
    ),
    "dropView": Mutation(
        made(("DELETE", view_path(["a"], "t"), None), a_view),
        204,
        at_path(view_path(["a"], "u")),
        lambda client: [client.create_view(["a"], "t")],
        made(("DELETE", view_path(["a"], "t"), None)),
        404,
        makes(a_view),
    ),
    "renameView": Mutation(
        made(("POST", "/views/rename", rename_body("t", "u")), a_view),
        204,
        with_body(destination={"namespace": ["a"], "name": "other"}),
        lambda client: [client.call("DELETE", view_path(["a"], "u")), client.create_view(["a"], "t")],
        made(("POST", "/views/rename", rename_body("t", "u"))),
        404,
        makes(a_view),
    ),
}


@pytest.fixture(params=MUTATIONS)
def mutation(request: pytest.FixtureRequest) -> Mutation:
    return MUTATIONS[request.param]


def events(shared_catalog: SharedCatalog) -> int:
    # A job may still be purging an earlier test's table.
    ((count,),) = shared_catalog.rows(
        "select count(*) from icecore.events where topic not in ('task.deletion-begun.v1', 'table.purged.v1')"
    )
    return int(count)


def test_every_mutation_of_the_api_is_here(client: RestClient) -> None:
    """Every mutation that `getConfig` advertises, except metrics reports, which do not change the catalog."""
    endpoints = client.call_root("GET", f"/config?warehouse={client.warehouse}").json["endpoints"]
    changing = {endpoint for endpoint in endpoints if not endpoint.startswith(("GET", "HEAD")) and not endpoint.endswith("/metrics")}
    assert len(changing) == len({name.split()[0] for name in MUTATIONS})


def test_the_same_request_again_returns_the_same_bytes(client: RestClient, shared_catalog: SharedCatalog, mutation: Mutation) -> None:
    """Status, body, ETag and position, without a second effect."""
    method, path, body = mutation.prepare(client)
    key = uuid7()
    first = client.call(method, path, body, key=key)
    assert mutation.succeeds == first.status, first.body
    count = events(shared_catalog)
    for _ in range(3):
        assert first.replayable == client.call(method, path, body, key=key).replayable
    assert count == events(shared_catalog)


def test_the_old_response_comes_after_the_object_moved_on(client: RestClient, mutation: Mutation) -> None:
    """After commits, renames, drops and a new owner of the name, the response is the same."""
    method, path, body = mutation.prepare(client)
    key = uuid7()
    first = client.call(method, path, body, key=key)
    assert mutation.succeeds == first.status, first.body
    steps = mutation.moved_on(client)
    assert steps
    assert [] == [response.body for response in steps if response.status >= 300], "what should have happened since did not"
    assert first.replayable == client.call(method, path, body, key=key).replayable


def test_another_request_with_the_key_is_refused(client: RestClient, shared_catalog: SharedCatalog, mutation: Mutation) -> None:
    """422 without an effect. The first response is still repeated."""
    request = mutation.prepare(client)
    method, path, body = request
    key = uuid7()
    first = client.call(method, path, body, key=key)
    assert mutation.succeeds == first.status, first.body
    count = events(shared_catalog)
    method_other, path_other, body_other = mutation.other(request)
    refused = client.call(method_other, path_other, body_other, key=key)
    assert (422, "UnprocessableEntityException") == refused.error
    assert count == events(shared_catalog)
    assert first.replayable == client.call(method, path, body, key=key).replayable


def test_a_refusal_is_answered_again_though_it_would_succeed_now(client: RestClient, mutation: Mutation) -> None:
    """The same bytes, even if the request would succeed now."""
    method, path, body = mutation.refused(client)
    key = uuid7()
    first = client.call(method, path, body, key=key)
    assert mutation.refused_status == first.status, first.body
    assert [] == [response.body for response in mutation.possible(client) if response.status >= 300], "what refused it should be gone"
    assert first.replayable == client.call(method, path, body, key=key).replayable
    assert mutation.succeeds == (succeeded := client.call(method, path, body, key=uuid7())).status, succeeded.body
    assert first.replayable == client.call(method, path, body, key=key).replayable


def test_twenty_twins_in_flight_have_one_effect(client: RestClient, shared_catalog: SharedCatalog, mutation: Mutation) -> None:
    """All get the same response, and the log has one more event, or none if nothing changed."""
    method, path, body = mutation.prepare(client)
    key = uuid7()
    before = events(shared_catalog)
    responses = client.together([(method, path, body, key)] * 20)
    assert {mutation.succeeds} == {response.status for response in responses}, {response.body for response in responses}
    assert 1 == len({response.replayable for response in responses})
    assert mutation.events == events(shared_catalog) - before


def test_twins_of_a_refusal_hear_the_same(client: RestClient, mutation: Mutation) -> None:
    """Ten concurrent requests."""
    method, path, body = mutation.refused(client)
    responses = client.together([(method, path, body, uuid7())] + [(method, path, body, key) for key in [uuid7()] * 10])
    assert {mutation.refused_status} == {response.status for response in responses}
    assert 1 == len({response.replayable for response in responses})


def test_keys_are_distinguished(client: RestClient) -> None:
    """A second creation of the name with another key is refused."""
    assert 200 == client.call("POST", "/namespaces", {"namespace": ["n"]}, key=uuid7()).status
    assert 409 == client.call("POST", "/namespaces", {"namespace": ["n"]}, key=uuid7()).status


@pytest.mark.parametrize("key", ["", "not-a-uuid", "0198f3c0-1234-7abc-8def-0123456789", "{0198f3c0-1234-7abc-8def-0123456789ab}"])
def test_a_key_that_is_no_uuid_is_refused(client: RestClient, key: str) -> None:
    """400 before anything happens."""
    assert (400, "BadRequestException") == client.call("POST", "/namespaces", {"namespace": ["n"]}, key=key).error
    assert 404 == client.call("HEAD", "/namespaces/n").status


def test_a_key_is_good_in_spellings_of_one_address(client: RestClient) -> None:
    """`+` and `%20` are the same space: a retry with another client library is the same request."""
    client.create_namespace("a b")
    key = uuid7()
    first = client.call("POST", "/namespaces/a+b/tables", table_body("t"), key=key)
    assert first.replayable == client.call("POST", f"{namespace_path(['a b'])}/tables", table_body("t"), key=key).replayable


@pytest.mark.parametrize("then", ["", "?purgeRequested=true", "?purgeRequested=false"])
@pytest.mark.parametrize("first", ["", "?purgeRequested=true", "?purgeRequested=false"])
def test_a_drop_that_leaves_the_purge_to_the_warehouse_is_another_request(client: RestClient, first: str, then: str) -> None:
    """It differs from one that says `false`: the warehouse's purge default can be true."""
    assert 200 == client.create_table(["a"], "t").status
    key = uuid7()
    assert 204 == client.call("DELETE", f"{table_path(['a'], 't')}{first}", key=key).status
    assert (204 if first == then else 422) == client.call("DELETE", f"{table_path(['a'], 't')}{then}", key=key).status


def test_a_replay_leaves_no_file_behind(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """Requests that lose delete the metadata files that they wrote."""
    key = uuid7()
    responses = client.together([("POST", TABLES, table_body("t"), key)] * 8)
    location = responses[0].json["metadata"]["location"]
    folder = shared_catalog.server.warehouse_directory.parent / client.warehouse
    assert [location.rpartition("/")[2]] == [path.parent.parent.name for path in folder.rglob("*.metadata.json")]


def test_responses_survive_a_restart_of_the_server(database: str, tmp_path: Path) -> None:
    """Keys are stored in the database: another process repeats the responses and refusals of every mutation."""
    asked: list[tuple[str, Request, UUID, RestResponse]] = []
    with shared(database) as first:
        for mutation in MUTATIONS.values():
            for prepare, status in ((mutation.prepare, mutation.succeeds), (mutation.refused, mutation.refused_status)):
                client = first.client(first.new_warehouse())
                client.create_namespace("a")
                request, key = prepare(client), uuid7()
                response = client.call(*request, key=key)
                assert status == response.status, response.body
                asked.append((client.warehouse, request, key, response))
                client.close()
    with served_catalog(database, tmp_path / "warehouse") as again:
        for warehouse, request, used, response in asked:
            client = RestClient(again.url, warehouse)
            assert response.replayable == client.call(*request, key=used).replayable
            assert (422, "UnprocessableEntityException") == client.call("POST", "/namespaces", {"namespace": ["z"]}, key=used).error
            client.close()


def test_a_refusal_of_the_request_itself_is_remembered_too(client: RestClient) -> None:
    """Not only refusals by the state. Another body with the key is refused."""
    key, secretive = uuid7(), {"namespace": ["n"], "properties": {"s3.secret-access-key": "x"}}
    first = client.call("POST", "/namespaces", secretive, key=key)
    assert 400 == first.status
    assert first.replayable == client.call("POST", "/namespaces", secretive, key=key).replayable
    other = client.call("POST", "/namespaces", {"namespace": ["n"], "properties": {}}, key=key)
    assert (422, "UnprocessableEntityException") == other.error


async def test_a_fault_does_not_end_the_forgetting_of_keys(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is temporarily missing, as during a restore. The next round deletes old keys."""
    monkeypatch.setattr(compose, "_FORGET_KEYS_EVERY_SECONDS", 0.05)
    async with opened_catalog(database, tmp_path / "warehouse", jobs=True) as catalog, catalog.backends.connection() as connection:
        with structlog.testing.capture_logs() as logs:
            await connection.execute("alter table icecore.idempotency rename to away")
            while "idempotency_key_deletion_failed" not in [log["event"] for log in logs]:
                await asyncio.sleep(0.01)
            await connection.execute("alter table icecore.away rename to idempotency")
            while "idempotency_key_deletion_recovered" not in [log["event"] for log in logs]:
                await asyncio.sleep(0.01)
