"""One leader per sink: it is elected, replaced if it ends or freezes, and its late writes are refused."""

import asyncio

import psycopg
import pytest

from icecore.publishers import checkpoints
from icecore.publishers.checkpoints import LeadershipLostError, leading
from tests.integration.publishers.publishing import row


async def test_one_leads_and_the_next_takes_over_where_it_was(database: str) -> None:
    """Another sink has its own leader. The row continues with a new epoch."""
    async with leading(database, "a", "beginning") as first:
        assert first is not None
        async with leading(database, "a", "beginning") as second, leading(database, "b", "beginning") as other:
            assert second is None
            assert other is not None
        await first.move(7, 3)
    async with leading(database, "a", "beginning") as next_one:
        assert next_one is not None
        assert (7, 3) == (next_one.position, next_one.broker_sequence)


async def test_a_leader_whose_session_ended_is_replaced_and_shut_out(database: str) -> None:
    """Its writes are refused by the epoch, on any connection."""
    async with leading(database, "a", "beginning") as old:
        assert old is not None
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            await connection.execute("select pg_advisory_unlock_all()")
            # The lock belongs to the session, so another connection of the process cannot release it.
            async with leading(database, "a", "beginning") as nobody:
                assert nobody is None
        await old.connection.execute("select pg_advisory_unlock_all()")
        async with leading(database, "a", "beginning") as new:
            assert new is not None
            with pytest.raises(LeadershipLostError):
                await old.move(5, 0)
            await new.move(4, 0)
            with pytest.raises(LeadershipLostError):
                await old.check()


async def test_two_writes_from_one_place_are_one_too_many(database: str) -> None:
    """Compare-and-set: a position that was not read is not replaced."""
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        await lead.move(5, 0)
        lead.position = 0
        with pytest.raises(LeadershipLostError):
            await lead.move(6, 0)
        lead.position = 5


async def test_an_error_is_taken_back_once(database: str) -> None:
    """Also an error of the previous leader. Without an error nothing is written."""
    async with leading(database, "a", "beginning") as first:
        assert first is not None
        await first.report("it fails", 5)
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        reports = []
        for error in (None, None, "it fails again", None):
            await (lead.recovered() if error is None else lead.report(error, None))
            reports.append(await row(database, "last_error, blocked_position, xmin::text", "a"))
    assert [(None, None), (None, None), ("it fails again", None), (None, None)] == [each[:2] for each in reports if each]
    assert reports[0] == reports[1] != reports[3]


async def test_a_leader_that_falls_silent_is_replaced(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process keeps its connection. Postgres ends the session after the idle timeout."""
    monkeypatch.setattr(checkpoints, "SILENCE_SECONDS_MAX", 1)
    monkeypatch.setattr(checkpoints, "HEARTBEAT_SECONDS", 3600)
    with pytest.raises(psycopg.OperationalError):
        await _lead_in_silence(database)


async def _lead_in_silence(database: str) -> None:
    """Leads without sending statements until another leads. It then notices the end of its session."""
    async with leading(database, "a", "beginning") as silent:
        assert silent is not None
        for _ in range(100):
            await asyncio.sleep(0.1)
            async with leading(database, "a", "beginning") as successor:
                if successor is not None:
                    return
        pytest.fail("no process could take over")


async def test_a_leader_that_waits_for_its_sink_is_not_silent(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat keeps the session."""
    monkeypatch.setattr(checkpoints, "SILENCE_SECONDS_MAX", 1)
    monkeypatch.setattr(checkpoints, "HEARTBEAT_SECONDS", 0.2)
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        await asyncio.sleep(2.5)
        await lead.check()
