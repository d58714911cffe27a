"""A process killed at an approval: the change and its approval are both committed or neither, and the proposal can still be decided."""

import asyncio
import http.client
from pathlib import Path

import psycopg
import pytest

from icecore.approval.contract import Hold
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import set_properties
from tests.integration.approval.judging import Approver, Judge, asking, held
from tests.integration.approval.program import serving


@pytest.mark.parametrize(
    ("point", "happened"),
    [("commit.after_metadata_put", False), ("commit.before_append", False), ("commit.after_append", True)],
)
def test_killed_at_the_approval(database: str, tmp_path: Path, judge: Judge, point: str, happened: bool) -> None:
    """kill -9 before the commit changes nothing; after it, both are in the log."""
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge)) as server:
        client = Approver(server.url)
        client.create_namespace("a")
        client.create_table(["a"], "t")
        judge.always(Hold("somebody should look", 600.0))
        proposal_id = held(client.commit(["a"], "t", set_properties(k="v")))
        client.close()
    with serving(database, tmp_path / "first.log", ICECORE_TEST_FAULT=f"{point}:kill") as (url, _):
        client = Approver(url)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            client.approve(proposal_id)
        client.close()
    assert f"fault_point {point} kill" in (tmp_path / "first.log").read_text()
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select topic, count(distinct command_id) from icecore.events"
            " where topic in ('proposal.approved.v1', 'table.committed.v1') group by 1"
        ).fetchall()
        together = connection.execute("select count(distinct command_id) from icecore.events where notification_id > 4").fetchone()
    assert ({("proposal.approved.v1", 1), ("table.committed.v1", 1)} if happened else set()) == set(rows)
    assert (int(happened),) == together
    with serving(database, tmp_path / "second.log") as (url, _):
        client = Approver(url)
        assert ("approved" if happened else "open") == client.proposal(proposal_id)["status"]
        again = client.approve(proposal_id)
        assert (409 if happened else 200) == again.status
        assert "v" == client.load_table(["a"], "t").json["metadata"]["properties"]["k"]
        client.close()

    async def check() -> None:
        assert [] == (await verify(database)).differences
        await rebuild(database)
        assert [] == (await verify(database)).differences

    asyncio.run(check())
