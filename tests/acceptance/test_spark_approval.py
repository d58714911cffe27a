"""Spark with approval hooks: a schema contract, a change that waits for approval, and a refused append, from the user's point of view."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.plugins import installed_plugins
from tests.integration.approval.judging import Approver
from tests.servers.engines import EngineShell, SqlRefusedError
from tests.servers.icecore import Icecore, icecore
from tests.servers.spark import catalog_settings, spark_4_1, spark_shell

pytestmark = pytest.mark.timeout(600)

# Refuses rows for tables of a closed namespace. It does not use an event loop.
CLOSED = """
from icecore.approval.contract import ALLOW, Refuse

class Closed:
    def __init__(self, options):
        pass

    def review(self, change):
        for each in change.objects:
            if each.kind == "table" and each.before and each.after and each.name_after[0] == "closed":
                if len(each.after.get("snapshots", ())) > len(each.before.get("snapshots", ())):
                    return Refuse("closed on Sundays")
        return ALLOW
"""
HOOKS = {
    "ICECORE_HOOKS__CONTRACT__TYPE": "plugin",
    "ICECORE_HOOKS__CONTRACT__PLUGIN": "schema-contract",
    "ICECORE_HOOKS__CLOSED__TYPE": "plugin",
    "ICECORE_HOOKS__CLOSED__PLUGIN": "closed",
    "ICECORE_HOOKS__CLOSED__REFUSAL_STATUS": "403",
}


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """A server with both hooks."""
    plugins = installed_plugins(scratch / "site", CLOSED, {"closed": "Closed"})
    with icecore(scratch / "data", environment=HOOKS | plugins) as running:
        files = scratch / "warehouse"
        files.mkdir()
        running.create_warehouse("approved", {"type": "local", "directory": str(files)})
        yield running


@pytest.fixture(scope="module")
def shell(server: Icecore, scratch: Path) -> Iterator[EngineShell]:
    """Spark 4.1 on it."""
    with spark_shell(spark_4_1(), catalog_settings(server.catalog_uri, "approved"), scratch / "spark") as opened:
        opened.sql("USE ice")
        yield opened


@pytest.fixture
def approver(server: Icecore) -> Iterator[Approver]:
    """A client that decides on proposals."""
    opened = Approver(server.uri, "approved")
    yield opened
    opened.close()


def test_a_contract_refuses_what_breaks_readers(shell: EngineShell) -> None:
    """Rows and columns can be added. Dropping a column is refused with the reason."""
    shell.sql("CREATE NAMESPACE sales")
    shell.sql("ALTER NAMESPACE sales SET PROPERTIES ('icecore.schema-contract' = 'no-breaking-changes')")
    shell.sql("CREATE TABLE sales.orders (id INT, name STRING)")
    shell.sql("INSERT INTO sales.orders VALUES (1, 'Ada')")
    shell.sql("ALTER TABLE sales.orders ADD COLUMN price BIGINT")
    with pytest.raises(SqlRefusedError, match=r"Refused by contract: sales\.orders: column name is dropped"):
        shell.sql("ALTER TABLE sales.orders DROP COLUMN name")
    shell.sql("INSERT INTO sales.orders VALUES (2, 'Grace', 7)")
    assert [[1, "Ada", None], [2, "Grace", 7]] == shell.sql("SELECT * FROM sales.orders ORDER BY id")


def test_a_change_waits_and_takes_effect_when_it_is_approved(shell: EngineShell, approver: Approver) -> None:
    """The statement fails with the proposal's id. After the approval, the same session sees the column dropped."""
    shell.sql("CREATE NAMESPACE held")
    shell.sql(
        "ALTER NAMESPACE held SET PROPERTIES "
        "('icecore.schema-contract' = 'no-breaking-changes', 'icecore.schema-contract-on-breach' = 'hold')"
    )
    shell.sql("CREATE TABLE held.orders (id INT, name STRING)")
    shell.sql("INSERT INTO held.orders VALUES (1, 'Ada')")
    with pytest.raises(SqlRefusedError, match="waits for approval until"):
        shell.sql("ALTER TABLE held.orders DROP COLUMN name")
    (proposal,) = approver.proposals("?status=open")
    assert "held.orders: column name is dropped" == proposal["reason"]
    assert 200 == approver.approve(proposal["id"]).status
    shell.sql("REFRESH TABLE held.orders")
    assert [[1]] == shell.sql("SELECT * FROM held.orders")


def test_rows_that_are_refused_leave_no_files(shell: EngineShell, server: Icecore, scratch: Path) -> None:
    """On a final refusal, Spark deletes the data it wrote, and the log is unchanged."""
    shell.sql("CREATE NAMESPACE closed")
    shell.sql("CREATE TABLE closed.orders (id INT)")
    position, files = server.position(), {*(scratch / "warehouse").rglob("*.*")}
    with pytest.raises(SqlRefusedError, match="closed on Sundays"):
        shell.sql("INSERT INTO closed.orders VALUES (1)")
    assert position == server.position()
    assert files == {*(scratch / "warehouse").rglob("*.*")}
    assert [] == shell.sql("SELECT * FROM closed.orders")


def test_the_log_rebuilds_it(server: Icecore) -> None:
    """After refusals, a proposal and its approval."""
    server.check_against_log()
