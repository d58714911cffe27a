"""The behaviours of writers: each is a loop on one connection until its time is over."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchmarks import work
from benchmarks.arrivals import clock
from benchmarks.connection import Connection, Received, get, post

Json = dict[str, Any]
_LOCATION_KEY = b'"metadata-location":"'


@dataclass(slots=True)
class Writing:
    """One writer: its number, connection, end and arguments, and its results.

    latencies -- seconds, of commits. locations -- metadata files in the responses to its commits. answered -- when, by the clock.
    """

    connection: Connection
    host: str
    prefix: str
    headers: dict[str, str]
    number: int
    until: float
    given: Json
    successes: int = 0
    commits: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return clock() >= self.until

    def table_path(self, name: str) -> str:
        return f"{self.prefix}/namespaces/{self.given['namespace']}/tables/{name}"

    async def post(self, path: str, body: bytes, since: float | None = None) -> Received:
        """A mutation; its latency counts from `since`, or from now."""
        request = post(path, self.host, self.headers, body)
        started = clock() if since is None else since
        received = await self.connection.exchange(request)
        answered = clock()
        self.latencies.append(answered - started)
        self.commits += 1
        self.request_bytes += len(body)
        self.response_bytes += received.body_bytes
        self.statuses[received.status] += 1
        if received.status in (200, 204):
            self.successes += 1
            beginning = received.pieces[0] if received.pieces else b""
            location = location_in(beginning) or location_in(received.body)
            if location is not None:
                self.locations.append(location)
                self.answered.append(answered)
        elif len(self.refusals) < 3:
            self.refusals.append(received.body[:300].decode(errors="replace"))
        return received

    async def get(self, path: str) -> Received:
        received = await self.connection.exchange(get(path, self.host, self.headers))
        if received.status != 200:
            self.statuses[received.status] += 1
        return received


def location_in(body: bytes) -> str | None:
    """The first metadata location in a response or event; None if there is no complete one."""
    at = body.find(_LOCATION_KEY, 0, 4096)
    if at < 0:
        at = body.find(_LOCATION_KEY)
    if at < 0:
        return None
    start = at + len(_LOCATION_KEY)
    end = body.find(b'"', start)
    return None if end < 0 else body[start:end].decode()


async def append_own(writing: Writing) -> None:
    """Appends to the writer's own table, whose state it knows without a load.

    `tables` -- per writer: name, location, last sequence number, current snapshot.
    """
    name, location, sequence_number, parent_id = writing.given["tables"][writing.number]
    path = writing.table_path(name)
    while not writing.over:
        snapshot_id = work.new_snapshot_id()
        sequence_number += 1
        received = await writing.post(path, work.append_body(location, sequence_number, snapshot_id, parent_id))
        if received.status != 200:
            return
        parent_id = snapshot_id


async def post_same(writing: Writing) -> None:
    """The reference's work: a commit body of the requested size to `path`, repeatedly."""
    body = work.append_body("file:///reference", 1, work.new_snapshot_id(), work.new_snapshot_id())
    path = writing.given["path"].format(n=writing.number)
    while not writing.over:
        await writing.post(path, body)


async def append_shared(writing: Writing) -> None:
    """Loads, appends with `assert-ref-snapshot-id`, and retries immediately on 409. The history has at most `snapshots_max` snapshots."""
    path = writing.table_path(writing.given["table"])
    while not writing.over:
        loaded = await writing.get(path)
        if loaded.status != 200:
            continue
        metadata = orjson.loads(loaded.body)["metadata"]
        parent_id = metadata["current-snapshot-id"]
        too_many = len(metadata["snapshots"]) + 1 - writing.given["snapshots_max"]
        removed = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"][:too_many]] if too_many > 0 else None
        body = work.append_body(
            metadata["location"], metadata["last-sequence-number"] + 1, work.new_snapshot_id(), parent_id, removed=removed
        )
        await writing.post(path, body)


async def change_shared(writing: Writing) -> None:
    """Changes to one table that conflict with no other: a property and a tag of the writer's own, on existing snapshots."""
    path = writing.table_path(writing.given["table"])
    snapshots: list[int] = writing.given["snapshots"]
    turn = 0
    while not writing.over:
        turn += 1
        if turn % 2:
            body = work.properties_body({f"writer-{writing.number}": str(turn)})
        else:
            body = work.tag_body(f"writer-{writing.number}", snapshots[(turn // 2) % len(snapshots)])
        await writing.post(path, body)


async def change_and_load(writing: Writing) -> None:
    """A change of a property, then a load; the latencies are those of the loads."""
    path = writing.table_path(writing.given["table"])
    turn = 0
    while not writing.over:
        turn += 1
        await writing.post(path, work.properties_body({"turn": str(turn % 2)}))
        started = clock()
        await writing.get(path)
        writing.latencies[-1] = clock() - started


async def create(writing: Writing) -> None:
    """Creates tables with names of the writer's own."""
    path = f"{writing.prefix}/namespaces/{writing.given['namespace']}/tables"
    turn = 0
    while not writing.over:
        turn += 1
        await writing.post(path, work.create_body(f"{writing.given['stem']}_{writing.number}_{turn}"))


async def post_at_rate(writing: Writing) -> None:
    """Small changes of the writer's own table, `rate` per second. A latency counts from when the change was due."""
    rate = writing.given["rate"]
    path = writing.table_path(writing.given["tables"][writing.number])
    # The writers start at different times.
    started = clock() + writing.number / rate / len(writing.given["tables"])
    turn = 0
    while (due := started + turn / rate) < writing.until:
        await _until(due)
        await writing.post(path, work.properties_body({"turn": str(turn)}), since=max(due, 0.0))
        turn += 1


async def _until(due: float) -> None:
    wait = due - clock()
    if wait > 0:
        await asyncio.sleep(wait)


WRITERS: dict[str, Callable[[Writing], Awaitable[None]]] = {
    "append_own": append_own,
    "append_shared": append_shared,
    "change_and_load": change_and_load,
    "change_shared": change_shared,
    "create": create,
    "post_at_rate": post_at_rate,
    "post_same": post_same,
}
