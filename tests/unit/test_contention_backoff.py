"""ContentionBackoff sends the refusals of competing clients one after the other."""

import asyncio

import pytest

from icecore.commands.execution import contention_backoff
from icecore.commands.execution.contention_backoff import CONTENTION_REFUSALS, ContentionBackoff


class Crowd:
    """Clients whose commits are refused, and the order in which they received their refusals."""

    def __init__(self) -> None:
        self.backoff = ContentionBackoff()
        self.heard: list[int] = []

    def refuse(self, *clients: int) -> None:
        for client in clients:
            self.backoff.refuse(lambda client=client: self.heard.append(client))  # type: ignore[misc]


@pytest.fixture
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """ContentionBackoff that end only with a successful commit, not with time."""
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MIN", 30.0)
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MAX", 60.0)


async def test_without_contention_no_client_is_delayed(long_turns: None) -> None:
    """A refusal without competition is sent at once."""
    crowd = Crowd()
    crowd.refuse(*range(CONTENTION_REFUSALS - 1))
    assert [*range(CONTENTION_REFUSALS - 1)] == crowd.heard


async def test_each_commit_calls_the_next(long_turns: None) -> None:
    """In the order in which they were refused."""
    crowd = Crowd()
    crowd.refuse(*range(10))
    at_once = len(crowd.heard)
    assert at_once < CONTENTION_REFUSALS
    for more in range(1, 5):
        crowd.backoff.commit_succeeded()
        assert [*range(at_once + more)] == crowd.heard
    assert 10 - at_once - 4 == crowd.backoff.delayed


@pytest.mark.parametrize(("held", "later"), [(1, 0.0), (1, 0.03), (0, 0.0625), (0, 0.1)])
async def test_behind_a_turn_that_ended_a_crowd_is_not_held(monkeypatch: pytest.MonkeyPatch, held: int, later: float) -> None:
    """No refusal waits and no client has the turn: the next one refused gets it."""
    now = [1_000.0]
    monkeypatch.setattr("icecore.commands.execution.contention_backoff.time.monotonic", lambda: now[0])
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MIN", 0.0625)
    monkeypatch.setattr(contention_backoff, "BACKOFF_INTERVALS", 0.0)
    crowd = Crowd()
    crowd.refuse(*range(CONTENTION_REFUSALS - 1))
    now[0] += later
    crowd.refuse(CONTENTION_REFUSALS - 1)
    assert held == crowd.backoff.delayed


async def test_an_unused_turn_goes_to_the_next_client() -> None:
    """The client that has it may have disconnected."""
    crowd = Crowd()
    crowd.refuse(*range(6))
    assert crowd.backoff.delayed > 0
    async with asyncio.timeout(5):
        while crowd.backoff.delayed:
            await asyncio.sleep(0.01)
    assert [*range(6)] == crowd.heard


async def test_where_no_client_comes_back_more_are_called_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each turn without a retry, twice as many refusals are sent, until a client retries."""
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MIN", 0.05)
    monkeypatch.setattr(contention_backoff, "BACKOFF_INTERVALS", 0.0)
    crowd = Crowd()
    crowd.refuse(*range(40))
    at_once, seen = len(crowd.heard), set[int]()
    async with asyncio.timeout(5):
        while len(crowd.heard) < at_once + 31:
            await asyncio.sleep(0.002)
            seen.add(len(crowd.heard) - at_once)
    assert seen <= {0, 1, 3, 7, 15, 31}
    crowd.refuse(40)
    async with asyncio.timeout(5):
        while len(crowd.heard) == at_once + 31:
            await asyncio.sleep(0.002)
    assert at_once + 32 == len(crowd.heard), "one that came back is a crowd again"


async def test_no_client_is_delayed_for_long(long_turns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while no commit succeeds."""
    monkeypatch.setattr(contention_backoff, "DELAY_SECONDS_MAX", 0.05)
    crowd = Crowd()
    crowd.refuse(*range(6))
    async with asyncio.timeout(5):
        while crowd.backoff.delayed:
            await asyncio.sleep(0.01)
    assert [*range(6)] == crowd.heard


async def test_the_queue_is_bounded(long_turns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is full, refusals are sent at once."""
    monkeypatch.setattr(contention_backoff, "DELAYED_REFUSALS_MAX", 2)
    crowd = Crowd()
    crowd.refuse(*range(10))
    assert 2 == crowd.backoff.delayed


@pytest.mark.parametrize(("quantum", "round_seconds"), [(0.5, 6_000.0), (60.0, 20.0)], ids=["at most", "its share of a round"])
async def test_winners_that_come_back_go_on_for_a_while(
    long_turns: None, monkeypatch: pytest.MonkeyPatch, quantum: float, round_seconds: float
) -> None:
    """Once a winner was seen to commit again: two clients at a time would fail half the time. The more wait, the shorter it is."""
    monkeypatch.setattr(contention_backoff, "QUANTUM_SECONDS_MAX", quantum)
    monkeypatch.setattr(contention_backoff, "ROUND_SECONDS", round_seconds)
    monkeypatch.setattr(contention_backoff, "_WINNER_CHECK_INTERVAL", 1)
    crowd = Crowd()
    crowd.refuse(*range(40))
    crowd.backoff.commit_succeeded()
    called = len(crowd.heard)
    for _ in range(5):
        crowd.backoff.commit_succeeded()
        assert called == len(crowd.heard)
    await asyncio.sleep(0.7)
    crowd.backoff.commit_succeeded()
    assert called + 1 == len(crowd.heard), "their time is over"


async def test_winners_that_go_home_are_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then each success sends the next refusal, without waiting for the winner."""
    monkeypatch.setattr(contention_backoff, "QUANTUM_SECONDS_MAX", 60.0)
    monkeypatch.setattr(contention_backoff, "ROUND_SECONDS", 6_000.0)
    monkeypatch.setattr(contention_backoff, "_WINNER_CHECK_INTERVAL", 4)
    crowd = Crowd()
    crowd.refuse(*range(20))
    for _ in range(4):
        crowd.backoff.commit_succeeded()
    before = len(crowd.heard)
    async with asyncio.timeout(5):
        while len(crowd.heard) == before:
            await asyncio.sleep(0.005)
    for more in range(1, 4):
        called = len(crowd.heard)
        crowd.backoff.commit_succeeded()
        assert called + 1 == len(crowd.heard), f"success {more} after no client came back"


async def test_no_client_is_called_while_another_process_may_go_on(long_turns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the next refusal is sent, although no commit of this process succeeded."""
    monkeypatch.setattr(contention_backoff, "QUANTUM_SECONDS_MAX", 0.1)
    crowd = Crowd()
    crowd.refuse(*range(6))
    before = len(crowd.heard)
    crowd.backoff.commit_conflicted()
    assert before == len(crowd.heard)
    async with asyncio.timeout(5):
        while len(crowd.heard) == before:
            await asyncio.sleep(0.01)
    assert before + 1 == len(crowd.heard)


async def test_a_turn_is_as_long_as_commits_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The average is weighted, so that one slow commit does not stretch it much; no interval counts for more than the longest turn."""
    now = [1_000.0]
    monkeypatch.setattr("icecore.commands.execution.contention_backoff.time.monotonic", lambda: now[0])
    monkeypatch.setattr(contention_backoff, "BACKOFF_INTERVALS", 1.0)
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MIN", 0.0)
    monkeypatch.setattr(contention_backoff, "BACKOFF_SECONDS_MAX", 8.0)
    measured = ContentionBackoff()

    def turn_after(interval: float) -> float:
        now[0] += interval
        measured.commit_succeeded()
        return measured._turn_ends - now[0]

    for _ in range(200):
        turn_after(4.0)
    assert pytest.approx(4.0, abs=0.01) == turn_after(4.0)
    assert 4.0 < turn_after(1_000.0) < 8.0
    for _ in range(200):
        turn_after(1_000.0)
    assert pytest.approx(8.0, abs=0.01) == turn_after(1_000.0)
