"""One leader per sink: elected, replaced when it goes or freezes, and refused whatever it still writes."""

import asyncio

import psycopg
import pytest

from icecore.publishers import checkpoints
from icecore.publishers.checkpoints import LeadershipLostError, leading
from tests.integration.publishers.publishing import row


async def test_one_leads_and_the_next_takes_over_where_it_was(database: str) -> None:
    """Another sink is led beside it; the row goes on under a new epoch."""
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
    """Its writes are refused by the epoch, wherever they come from."""
    async with leading(database, "a", "beginning") as old:
        assert old is not None
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            await connection.execute("select pg_advisory_unlock_all()")
            # The lock is the session's: another connection of the same process cannot give it up.
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
    """Compare-and-set: what was not read before is not written over."""
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        await lead.move(5, 0)
        lead.position = 0
        with pytest.raises(LeadershipLostError):
            await lead.move(6, 0)
        lead.position = 5


async def test_an_error_is_taken_back_once(database: str) -> None:
    """Also one of the leader before; where none stands, nothing is written."""
    async with leading(database, "a", "beginning") as first:
        assert first is not None
        await first.report("it fails", 5)
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        told = []
        for error in (None, None, "it fails again", None):
            await (lead.recovered() if error is None else lead.report(error, None))
            told.append(await row(database, "last_error, blocked_position, xmin::text", "a"))
    assert [(None, None), (None, None), ("it fails again", None), (None, None)] == [each[:2] for each in told if each]
    assert told[0] == told[1] != told[3]


async def test_a_leader_that_falls_silent_is_replaced(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process keeps its connection: Postgres ends the session after a time without a word."""
    monkeypatch.setattr(checkpoints, "SILENCE_SECONDS_MAX", 1)
    monkeypatch.setattr(checkpoints, "HEARTBEAT_SECONDS", 3600)
    with pytest.raises(psycopg.OperationalError):
        await _lead_in_silence(database)


async def _lead_in_silence(database: str) -> None:
    """Until another leads; the end of the silent one's session is heard when it says something at last."""
    async with leading(database, "a", "beginning") as silent:
        assert silent is not None
        for _ in range(100):
            await asyncio.sleep(0.1)
            async with leading(database, "a", "beginning") as successor:
                if successor is not None:
                    return
        pytest.fail("nobody could take over")


async def test_a_leader_that_waits_for_its_sink_is_not_silent(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat keeps the session."""
    monkeypatch.setattr(checkpoints, "SILENCE_SECONDS_MAX", 1)
    monkeypatch.setattr(checkpoints, "HEARTBEAT_SECONDS", 0.2)
    async with leading(database, "a", "beginning") as lead:
        assert lead is not None
        await asyncio.sleep(2.5)
        await lead.check()
