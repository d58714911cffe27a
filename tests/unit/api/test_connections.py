"""Limits on connections: which one is closed if there are too many, and which clients make too little progress."""

import asyncio
import resource
import weakref
from collections.abc import Iterator

import pytest
import structlog

from icecore.api.connections import BEHIND_SECONDS_MAX, DESCRIPTORS_SHARE, DRAINING_STALL_SECONDS_MAX, ClientConnections, ExpectedFromClient

STALL_SECONDS = 0.2
RATE_MIN = 1_000


class Reader:
    """The server's end of a connection whose client reads this many bytes of its response between two checks."""

    def __init__(self, bytes_each: int) -> None:
        self._bytes_each, self.taken, self.aborted, self.idle_since = bytes_each, 0, False, 0.0

    def expected_from_client(self) -> ExpectedFromClient:
        self.taken += self._bytes_each
        return "response", self.taken, 1_000_000 - self.taken

    def seconds_behind(self, rate: int) -> float:
        return 0.0

    def response_bytes_taken(self) -> int:
        return self.taken

    def close_stalled(self, expected: str) -> None:
        raise AssertionError("it makes progress")

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize(("bytes_each", "aborted"), [(1, True), (1_000, False)])
async def test_a_response_must_be_taken_at_a_rate(bytes_each: int, aborted: bool) -> None:
    """Single bytes are progress, but too little."""
    connections, reader = ClientConnections(10, STALL_SECONDS, RATE_MIN), Reader(bytes_each)
    connections.opened(reader)
    loop = asyncio.get_running_loop()
    end = loop.time() + 3 * STALL_SECONDS
    while loop.time() < end:
        connections.check(STALL_SECONDS)
        await asyncio.sleep(STALL_SECONDS / 20)
    assert reader.aborted == aborted


class Client:
    """The server's end of a connection, in a state that the test sets."""

    def __init__(self, expected: ExpectedFromClient | None, idle_since: float = 0.0, behind: float = 0.0) -> None:
        self.state, self.idle_since, self.behind = expected, idle_since, behind
        self.aborted, self.ended = False, list[str]()

    def expected_from_client(self) -> ExpectedFromClient | None:
        return self.state

    def seconds_behind(self, rate: int) -> float:
        return self.behind

    def response_bytes_taken(self) -> int | None:
        return self.state[1] if self.state is not None and len(self.state) == 3 else None

    def close_stalled(self, expected: str) -> None:
        self.ended.append(expected)

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize("idle", [("request",), ("head",)])
async def test_the_connection_that_has_been_idle_for_longest_makes_room(idle: ExpectedFromClient) -> None:
    """Before any whose request is being processed."""
    connections = ClientConnections(3, STALL_SECONDS, RATE_MIN)
    busy, older, newer, last = Client(None, 0.0), Client(idle, 1.0), Client(idle, 2.0), Client(idle, 3.0)
    for each in (busy, newer, older, last):
        connections.opened(each)
    assert [older] == [each for each in (busy, older, newer, last) if each.aborted]
    assert (3, 1) == (len(connections), connections.metrics.closed_over_limit)


async def test_where_none_is_idle_the_one_without_progress_for_longest_makes_room() -> None:
    """If all make progress, the new one is closed."""
    connections, seconds = ClientConnections(2, STALL_SECONDS, RATE_MIN), 2.2 * 0.5
    longest, shorter = Client(("body", 1)), Client(("body", 1))
    connections.opened(longest)
    connections.check(STALL_SECONDS)
    await asyncio.sleep(0.01)
    connections.opened(shorter)
    connections.check(1_000)
    new = Client(("request",))
    await asyncio.sleep(seconds)
    connections.opened(new)
    assert [True, False, False] == [each.aborted for each in (longest, shorter, new)]
    shorter.state, new.state = ("body", 2), None
    connections.opened(too_many := Client(("request",)))
    assert [False, False, True] == [each.aborted for each in (shorter, new, too_many)]
    assert 2 == len(connections)


async def closed_of(*opened: Client) -> list[Client]:
    """Those of the connections that are closed if one more is opened."""
    connections, new = ClientConnections(len(opened), STALL_SECONDS, RATE_MIN), Client(("request",))
    for each in (*opened, new):
        connections.opened(each)
    return [each for each in (*opened, new) if each.aborted]


async def test_a_client_that_sends_much_too_slowly_makes_room_before_idle_ones() -> None:
    """The slowest."""
    slow, slower = (Client(("body", 1), behind=BEHIND_SECONDS_MAX + more) for more in (0.0, 1.0))
    assert [slower] == await closed_of(slow, Client(("request",)), slower, Client(None))


async def test_a_client_that_is_a_little_behind_makes_room_only_where_none_is_idle() -> None:
    idle, behind, ordinary = Client(("request",)), Client(("body", 1), behind=0.1), Client(("body", 100_000), behind=-20.0)
    assert [idle] == await closed_of(behind, ordinary, idle)
    assert [behind] == await closed_of(behind, ordinary, Client(None))


async def test_a_client_that_sends_at_an_ordinary_rate_stays() -> None:
    """The new connection is closed."""
    ordinary = Client(("body", 100_000), behind=-0.1)
    (closed,) = await closed_of(ordinary, Client(None))
    assert ordinary is not closed


async def test_too_many_connections_are_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once when there are no longer too many."""
    monkeypatch.setattr("icecore.api.connections.OVER_LIMIT_SECONDS", 0.1)
    connections = ClientConnections(1, STALL_SECONDS, RATE_MIN)
    with structlog.testing.capture_logs() as records:
        for _ in range(4):
            connections.opened(Client(("request",)))
            connections.check(STALL_SECONDS)
        await asyncio.sleep(0.15)
        for _ in range(2):
            connections.check(STALL_SECONDS)
        connections.opened(Client(("request",)))
    over = {"event": "connections_over_limit", "log_level": "warning", "connections_max": 1}
    assert [over, {"event": "connections_below_limit", "log_level": "info", "closed": 3}, over] == records


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield 256
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_descriptors_are_left_for_others_than_clients(few_descriptors: int) -> None:
    connections = ClientConnections(1_000, STALL_SECONDS, RATE_MIN)
    for _ in range(300):
        connections.opened(Client(("request",)))
    assert int(few_descriptors * DESCRIPTORS_SHARE) == len(connections) < few_descriptors


async def test_there_are_no_more_than_the_limit() -> None:
    connections = ClientConnections(5, STALL_SECONDS, RATE_MIN)
    opened = [Client(("request",), number) for number in range(8)]
    for each in opened:
        connections.opened(each)
    assert 5 == len(connections)
    for each in opened:
        connections.closed(each)
    assert 0 == len(connections)


async def test_nothing_is_kept_of_a_connection_that_was_closed() -> None:
    """Neither the connection nor its response."""
    connections, client = ClientConnections(10, STALL_SECONDS, RATE_MIN), Client(("response", 1, 10))
    connections.opened(client)
    connections.check(STALL_SECONDS)
    connections.closed(client)
    kept = weakref.ref(client)
    del client
    assert kept() is None


@pytest.mark.parametrize(
    ("expected", "ended"),
    [(("body", 1), ["body"]), (("head",), ["head"]), (("response", 1, 10), ["response"]), (("request",), []), (None, [])],
)
async def test_what_makes_no_progress_in_time_is_cut(expected: ExpectedFromClient | None, ended: list[str]) -> None:
    """A connection without a request is not closed, nor one whose request the server is processing."""
    connections, client = ClientConnections(10, STALL_SECONDS, 0), Client(expected)
    connections.opened(client)
    connections.check(STALL_SECONDS)
    await asyncio.sleep(STALL_SECONDS / 2)
    connections.check(STALL_SECONDS)
    assert [] == client.ended
    await asyncio.sleep(STALL_SECONDS)
    connections.check(STALL_SECONDS)
    assert ended == client.ended
    assert len(ended) == connections.metrics.stalled


async def test_the_next_response_of_a_connection_is_measured_from_its_beginning() -> None:
    """It has sent fewer bytes than the previous response."""
    connections, client = ClientConnections(10, STALL_SECONDS, RATE_MIN), Client(("response", 1_000_000, 10))
    connections.opened(client)
    connections.check(STALL_SECONDS)
    await asyncio.sleep(1.5 * STALL_SECONDS)
    client.state = ("response", 0, 10)
    connections.check(STALL_SECONDS)
    assert not client.aborted


async def test_a_server_that_ends_waits_less_and_a_fault_ends_no_limits() -> None:
    connections = ClientConnections(10, 100 * DRAINING_STALL_SECONDS_MAX, 0)
    connections.drain()
    assert DRAINING_STALL_SECONDS_MAX == connections._stall_seconds_max
    connections = ClientConnections(10, 0.1, 0)
    client = Client(("body", 1))

    class Faulty(Client):
        def expected_from_client(self) -> ExpectedFromClient | None:
            if self.state is None:
                raise RuntimeError("a fault of ours")
            return self.state

    faulty = Faulty(("request",))
    connections.opened(faulty)
    connections.opened(client)
    connections.start()
    faulty.state = None
    await asyncio.sleep(0.1)
    faulty.state = ("request",)
    await asyncio.sleep(0.4)
    connections.close()
    assert ["body"] == client.ended[:1]
