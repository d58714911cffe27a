"""PyIceberg as the writer, with a contract, a hold and a failing hook, on a server of several processes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    RESTError,
    ServiceUnavailableError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icecore.approval.contract import Hold, Refuse
from icecore.projections.verify import verify
from tests.fixtures.catalog import CatalogServer, opened_catalog, served_catalog
from tests.fixtures.rest_client import RestResponse, table_path
from tests.integration.approval.judging import Approver, Judge, asking
from tests.integration.approval.program import CONTRACT, serving

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)
ROWS = pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int32()), "name": ["Ada", "Grace"]})


@dataclass
class Contracted:
    """A server with the contract hook, PyIceberg, and a REST client."""

    catalog: Catalog
    client: Approver

    def commit(self, *updates: dict[str, Any]) -> RestResponse:
        return self.client.commit(["sales"], "orders", *updates)


@pytest.fixture
def contracted(database: str, tmp_path: Path) -> Iterator[Contracted]:
    """`icecore serve --workers 2` with the plug-in in its environment. `sales` has the contract no-breaking-changes."""

    async def make_warehouse() -> None:
        async with opened_catalog(database, tmp_path / "warehouse"):
            pass

    asyncio.run(make_warehouse())
    with serving(database, tmp_path / "server.log", workers=2, **CONTRACT) as (url, _):
        catalog = load_catalog("icecore", type="rest", uri=f"{url}/catalog", warehouse="demo")
        catalog.create_namespace("sales", {"icecore.schema-contract": "no-breaking-changes"})
        table = catalog.create_table("sales.orders", SCHEMA)
        table.append(ROWS)
        client = Approver(url)
        yield Contracted(catalog, client)
        client.close()

    async def check() -> None:
        assert [] == (await verify(database)).differences

    asyncio.run(check())


def test_a_contract_lets_a_table_grow_and_keeps_what_is_there(contracted: Contracted) -> None:
    """Columns are added and widened, and rows are written. Dropping a column or making it required is refused with the reason."""
    table = contracted.catalog.load_table("sales.orders")
    with table.update_schema() as update:
        update.add_column("price", LongType())
        update.update_column("id", field_type=LongType())
    table.append(pyarrow.table({"id": [3], "name": ["Edsger"], "price": [7]}))
    refused = pytest.raises(CommitFailedException, match=r"Refused by contract: sales\.orders: column name is dropped")
    with refused, table.update_schema() as update:
        update.delete_column("name")
    with (
        pytest.raises(CommitFailedException, match="column name is made required"),
        table.update_schema(allow_incompatible_changes=True) as update,
    ):
        update.update_column("name", required=True)
    with pytest.raises(CommitFailedException, match="column name is renamed to title"), table.update_schema() as update:
        update.rename_column("name", "title")
    table = contracted.catalog.load_table("sales.orders")
    assert ["id", "name", "price"] == table.schema().column_names
    assert 3 == table.scan().to_arrow().num_rows


def test_no_way_around_the_contract(contracted: Contracted) -> None:
    """Setting back the current schema, a replacing transaction, and a registration over the table are refused. A nested namespace inherits
    the contract.
    """
    first = contracted.client.load_table(["sales"], "orders").json["metadata-location"]
    table = contracted.catalog.load_table("sales.orders")
    with table.update_schema() as update:
        update.add_column("price", LongType())
    back = contracted.commit({"action": "set-current-schema", "schema-id": 0})
    assert (409, "ChangeRefusedException") == back.error
    assert "column price is dropped" in back.message
    replacing = [
        {"action": "add-schema", "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "int"}]}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "remove-snapshot-ref", "ref-name": "main"},
    ]
    assert (409, "ChangeRefusedException") == contracted.commit(*replacing).error
    change = {"identifier": {"namespace": ["sales"], "name": "orders"}, "requirements": [], "updates": replacing}
    assert (409, "ChangeRefusedException") == contracted.client.call("POST", "/transactions/commit", {"table-changes": [change]}).error
    over = {"name": "orders", "metadata-location": first, "overwrite": True}
    registered = contracted.client.call("POST", "/namespaces/sales/register", over)
    assert (409, "ChangeRefusedException") == registered.error
    assert "column price is dropped" in registered.message
    contracted.catalog.create_namespace("sales.eu")
    inner = contracted.catalog.create_table("sales.eu.orders", SCHEMA)
    with pytest.raises(CommitFailedException, match="column name is dropped"), inner.update_schema() as update:
        update.delete_column("name")


def test_a_misspelt_promise_is_refused_where_it_is_made(contracted: Contracted) -> None:
    """In the namespace's properties. The message names the permitted values."""
    misspelt = {"icecore.schema-contract": "no-breaking-change"}
    with pytest.raises(BadRequestError, match="must be no-breaking-changes or none"):
        # Clients would read a 409 as an existing namespace.
        contracted.catalog.create_namespace_if_not_exists("misspelt", misspelt)
    assert not contracted.catalog.namespace_exists("misspelt")
    with pytest.raises(RESTError, match="must be no-breaking-changes or none"):
        contracted.catalog.update_namespace_properties("sales", updates=misspelt)


def test_a_breach_waits_for_approval_where_the_namespace_says_so(contracted: Contracted) -> None:
    """The engine gets the proposal's id, the same at each retry. Once it is approved, the column is dropped."""
    contracted.catalog.update_namespace_properties("sales", updates={"icecore.schema-contract-on-breach": "hold"})
    table = contracted.catalog.load_table("sales.orders")
    for _ in range(2):
        with pytest.raises(CommitFailedException, match="waits for approval until"), table.update_schema() as update:
            update.delete_column("name")
        table.refresh()
    (proposal,) = contracted.client.proposals("?status=open")
    assert ("contract", "sales.orders: column name is dropped") == (proposal["hook"], proposal["reason"])
    assert 200 == contracted.client.approve(proposal["id"]).status
    table.refresh()
    assert ["id"] == table.schema().column_names
    assert 2 == table.scan().to_arrow().num_rows


@pytest.fixture
def written(server: CatalogServer, client: Approver) -> Any:
    """A table on the server with a judge, through PyIceberg."""
    catalog = load_catalog("icecore", type="rest", uri=f"{server.url}/catalog", warehouse="demo")
    return catalog.create_table("a.orders", SCHEMA)


def test_an_append_that_is_refused_ends_with_the_reason(written: Any, judge: Judge, client: Approver) -> None:
    """PyIceberg retries a 409 of an append as often as the table says, then raises the hook's message. Nothing is committed."""
    with written.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"})
    for verdict in (Refuse("closed on Sundays"), Hold("ask first", 60.0)):
        judge.shown.clear()
        judge.always(verdict)
        with pytest.raises(CommitFailedException, match=verdict.reason):
            written.append(ROWS)
        assert 3 == len(judge.shown)
        assert [] == client.load_table(["a"], "orders").json["metadata"]["snapshots"]
    assert [] == client.proposals()
    judge.say = None
    written.append(ROWS)
    assert 2 == written.scan().to_arrow().num_rows


def test_engines_take_a_403_for_final(database: str, tmp_path: Path, judge: Judge) -> None:
    """A hook with refusal_status 403 is asked once, and `IF NOT EXISTS` does not succeed. A 409 means an existing name."""
    for status, folder in ((403, "final"), (409, "conflict")):
        with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge, refusal_status=status)) as server:  # type: ignore[arg-type]
            judge.say = None
            catalog = load_catalog("icecore", type="rest", uri=f"{server.url}/catalog", warehouse="demo")
            catalog.create_namespace(folder)
            table = catalog.create_table(f"{folder}.orders", SCHEMA)
            for verdict in (Refuse("closed on Sundays"), Hold("ask first", 60.0)):
                judge.always(verdict)
                if status == 403:
                    judge.shown.clear()
                    with pytest.raises(ForbiddenError, match=verdict.reason):
                        table.append(ROWS)
                    assert 1 == len(judge.shown)
                    with pytest.raises(ForbiddenError, match=verdict.reason):
                        catalog.create_namespace_if_not_exists("refused")
                else:
                    catalog.create_namespace_if_not_exists("refused")
                    with pytest.raises(NamespaceAlreadyExistsError, match=verdict.reason):
                        catalog.create_namespace("refused")
            assert ("refused",) not in catalog.list_namespaces()


def test_a_hook_that_fails_is_no_conflict(written: Any, judge: Judge, client: Approver) -> None:
    """It gets 503 and does not retry."""
    judge.always(None)
    judge.shown.clear()
    with pytest.raises(ServiceUnavailableError, match="The approval hook judge0 returned no verdict"):
        written.append(ROWS)
    assert 1 == len(judge.shown)
    judge.say = None
    assert 200 == client.call("GET", table_path(["a"], "orders")).status
