"""An approval applies only to the state that was held. Otherwise the proposal is stale, and nothing changes."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from uuid_utils.compat import uuid7

from icecore.approval.contract import Hold
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.rest_client import (
    SCHEMA,
    RestClient,
    RestResponse,
    identifier,
    namespace_path,
    set_properties,
    table_path,
    view_path,
    view_version,
)
from tests.integration.approval.judging import Approver, Judge, asking, held
from tests.integration.approval.test_proposals import checked

HOLD = Hold("somebody should look", 60.0)
COMMIT = {"requirements": [], "updates": [set_properties(k="v")]}
VIEW = {"name": "w", "schema": SCHEMA, "view-version": view_version("select 2"), "properties": {}}

Change = tuple[str, str, Any]


def done(*responses: RestResponse) -> None:
    assert [] == [response.body for response in responses if response.status >= 300]


def swap_tables(client: RestClient, one: str = "t", other: str = "u") -> None:
    done(client.rename_table((["a"], one), (["a"], "aside")))
    done(client.rename_table((["a"], other), (["a"], one)), client.rename_table((["a"], "aside"), (["a"], other)))


def swap_views(client: RestClient) -> None:
    done(client.rename_view((["a"], "v"), (["a"], "aside")))
    done(client.rename_view((["a"], "x"), (["a"], "v")), client.rename_view((["a"], "aside"), (["a"], "x")))


def replace_namespace(client: RestClient) -> None:
    done(client.call("DELETE", "/namespaces/n"), client.create_namespace("n", owner="another"))


def namespace_dropped(client: RestClient) -> None:
    done(client.call("DELETE", "/namespaces/n"))


def view_instead_of_table(client: RestClient) -> None:
    done(client.drop_table(["a"], "t"), client.create_view(["a"], "t"))


def table_made_anew(client: RestClient) -> None:
    done(client.drop_table(["a"], "t"), client.create_table(["a"], "t"))


def table_dropped(client: RestClient) -> None:
    done(client.drop_table(["a"], "t"))


def table_changed(client: RestClient) -> None:
    done(client.commit(["a"], "t", set_properties(other="1")))


def table_renamed_and_back(client: RestClient) -> None:
    done(client.rename_table((["a"], "t"), (["a"], "aside")), client.rename_table((["a"], "aside"), (["a"], "t")))


def purge_default_changed(client: RestClient) -> None:
    """And back: another policy may have been meant."""
    assert isinstance(client, Approver)
    (demo,) = client.manage("GET", "/warehouse").json["warehouses"]
    path = f"/warehouse/{demo['id']}/purge-default"
    done(*(client.manage("POST", path, {"purge-default": value}) for value in (True, False)))


def namespace_changed(client: RestClient) -> None:
    done(client.call("POST", "/namespaces/n/properties", {"updates": {"other": "1"}, "removals": []}))


T, V = table_path(["a"], "t"), view_path(["a"], "v")
UPDATE_TABLE: Change = ("POST", T, COMMIT)
DROP_TABLE: Change = ("DELETE", f"{T}?purgeRequested=true", None)
RENAME_TABLE: Change = ("POST", "/tables/rename", {"source": identifier(["a"], "t"), "destination": identifier(["n"], "s")})
RENAME_VIEW: Change = ("POST", "/views/rename", {"source": identifier(["a"], "v"), "destination": identifier(["n"], "s")})
UPDATE_PROPERTIES: Change = ("POST", "/namespaces/n/properties", {"updates": {"k": "v"}, "removals": []})
TRANSACTION: Change = (
    "POST",
    "/transactions/commit",
    {
        "table-changes": [
            {"identifier": identifier(["a"], "t"), "requirements": [], "updates": [set_properties(k="of t")]},
            {"identifier": identifier(["a"], "u"), "requirements": [], "updates": [set_properties(k="of u")]},
        ]
    },
)
CASES: dict[str, tuple[Change, Callable[[RestClient], None]]] = {
    "updateTable, names swapped": (UPDATE_TABLE, swap_tables),
    "updateTable, a view under the name": (UPDATE_TABLE, view_instead_of_table),
    "updateTable, made anew": (UPDATE_TABLE, table_made_anew),
    "updateTable, gone": (UPDATE_TABLE, table_dropped),
    "updateTable, changed": (UPDATE_TABLE, table_changed),
    "updateTable, renamed and back": (UPDATE_TABLE, table_renamed_and_back),
    "dropTable with purge, names swapped": (DROP_TABLE, swap_tables),
    "dropTable with purge, made anew": (DROP_TABLE, table_made_anew),
    "dropTable with purge, changed": (DROP_TABLE, table_changed),
    "dropTable, another purge default": (("DELETE", T, None), purge_default_changed),
    "dropView, another purge default": (("DELETE", V, None), purge_default_changed),
    "unregisterTable, names swapped": (("POST", f"{T}/unregister", None), swap_tables),
    "renameTable, names swapped": (RENAME_TABLE, swap_tables),
    "renameTable, another namespace": (RENAME_TABLE, replace_namespace),
    "commitTransaction, names swapped": (TRANSACTION, swap_tables),
    "commitTransaction, one made anew": (TRANSACTION, table_made_anew),
    "commitTransaction, one changed": (TRANSACTION, table_changed),
    "replaceView, names swapped": (("POST", V, COMMIT), swap_views),
    "renameView, names swapped": (RENAME_VIEW, swap_views),
    "renameView, another namespace": (RENAME_VIEW, replace_namespace),
    "dropView, names swapped": (("DELETE", V, None), swap_views),
    "createTable, another namespace": (("POST", "/namespaces/n/tables", {"name": "s", "schema": SCHEMA}), replace_namespace),
    "createTable, its namespace gone": (("POST", "/namespaces/n/tables", {"name": "s", "schema": SCHEMA}), namespace_dropped),
    "createView, another namespace": (("POST", "/namespaces/n/views", VIEW), replace_namespace),
    "createNamespace, another parent": (("POST", "/namespaces", {"namespace": ["n", "m"], "properties": {}}), replace_namespace),
    "updateProperties, another namespace": (UPDATE_PROPERTIES, replace_namespace),
    "updateProperties, changed": (UPDATE_PROPERTIES, namespace_changed),
    "dropNamespace, another namespace": (("DELETE", "/namespaces/n", None), replace_namespace),
}


@pytest.fixture(scope="module")
def judge() -> Judge:
    """One for all tests of the module."""
    return Judge()


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str, tmp_path_factory: pytest.TempPathFactory, judge: Judge) -> Iterator[CatalogServer]:
    """One server with the judge for all tests of the module. At the end, the read models agree with the log."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template_database)))
        dsn = make_conninfo(admin_dsn, dbname=name)
        with served_catalog(dsn, tmp_path_factory.mktemp("stale") / "warehouse", prepare=asking(judge)) as opened:
            yield opened
        asyncio.run(checked(dsn))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def client(server: CatalogServer, judge: Judge) -> Iterator[Approver]:
    """A client of a warehouse that the previous test has emptied."""
    opened = Approver(server.url)
    done(opened.create_namespace("a"), opened.create_table(["a"], "t"), opened.create_table(["a"], "u"))
    done(opened.create_view(["a"], "v"), opened.create_view(["a"], "x"), opened.create_namespace("n"))
    yield opened
    judge.say = None
    for levels in (["n", "m"], ["n"], ["a"]):
        if opened.call("GET", namespace_path(levels)).status == 200:
            done(*(opened.drop_table(levels, name) for name in opened.table_names(*levels)))
            done(*(opened.call("DELETE", view_path(levels, name)) for name in opened.view_names(*levels)))
            done(opened.call("DELETE", namespace_path(levels)))
    for each in opened.proposals("?status=open"):
        done(opened.reject(each["id"]))
    opened.close()


def topics_after(server: CatalogServer, position: int) -> list[str]:
    query = """
        select topic from icecore.events
        where notification_id > %s and topic not in ('task.deletion-begun.v1', 'table.purged.v1') order by notification_id"""
    with psycopg.connect(server.dsn) as connection:
        return [topic for (topic,) in connection.execute(query, [position]).fetchall()]


def head(server: CatalogServer) -> int:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("select max(notification_id) from icecore.events").fetchone()
    assert row is not None
    return int(row[0])


def is_stale(client: Approver, server: CatalogServer, proposal_id: str, *, key: object = None) -> None:
    """Checks that the approval is refused, changes nothing, and closes the proposal."""
    before = head(server)
    refused = client.approve(proposal_id, key=key)
    assert (409, "ProposalClosedException") == refused.error, refused.body
    assert f"Proposal {proposal_id} is stale" in refused.message
    assert ["proposal.stale.v1"] == topics_after(server, before)
    assert "stale" == client.proposal(proposal_id)["status"]


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_not_approved_for_another_object(client: Approver, judge: Judge, server: CatalogServer, name: str) -> None:
    """Neither for another object with the same name, nor for the same object after a change. A new request can be approved."""
    (method, path, body), meanwhile = CASES[name]
    judge.always(HOLD)
    proposal_id = held(client.call(method, path, body))
    judge.say = None
    meanwhile(client)
    key = uuid7()
    is_stale(client, server, proposal_id, key=key)
    before = head(server)
    for late in (client.approve(proposal_id, key=key), client.approve(proposal_id), client.reject(proposal_id)):
        assert (409, "ProposalClosedException") == late.error
    assert [] == topics_after(server, before)
    judge.always(HOLD)
    again = client.call(method, path, body)
    if again.status != 404:
        assert 200 == client.approve(held(again)).status


def test_what_only_another_has_changed_is_approved(client: Approver, judge: Judge) -> None:
    """Control: changes to other objects and to the namespaces' properties are permitted."""
    judge.always(HOLD)
    committed, created = held(client.call(*UPDATE_TABLE)), held(client.create_table(["n"], "s"))
    judge.say = None
    done(client.commit(["a"], "u", set_properties(k="v")))
    for namespace in ("a", "n"):
        done(client.call("POST", f"/namespaces/{namespace}/properties", {"updates": {"other": "1"}, "removals": []}))
    assert [200, 200] == [client.approve(committed).status, client.approve(created).status]


def test_the_same_change_asked_for_again_gets_a_proposal_that_can_be_approved(client: Approver, judge: Judge) -> None:
    """The open proposal is stale, although no approval was attempted."""
    judge.always(HOLD)
    first = held(client.call(*UPDATE_TABLE))
    judge.say = None
    table_changed(client)
    judge.always(HOLD)
    second = held(client.call(*UPDATE_TABLE))
    assert ("stale", "open") == (client.proposal(first)["status"], client.proposal(second)["status"])
    assert first in [each["id"] for each in client.proposals("?status=stale")]
    assert 200 == client.approve(second).status


@pytest.mark.parametrize("change", [UPDATE_TABLE, DROP_TABLE, RENAME_TABLE, TRANSACTION], ids=["commit", "drop", "rename", "transaction"])
def test_names_swapped_by_another_server(client: Approver, judge: Judge, server: CatalogServer, tmp_path: Path, change: Change) -> None:
    """The approving server has cached the names and states from when the change was held."""
    judge.always(HOLD)
    proposal_id = held(client.call(*change))
    judge.say = None
    with served_catalog(server.dsn, tmp_path / "warehouse", prepare=asking(Judge()), jobs=False) as second:
        other = RestClient(second.url)
        swap_tables(other)
        other.close()
    is_stale(client, server, proposal_id)
