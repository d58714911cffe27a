"""The reference for commits: aiohttp on uvloop; parses the body, writes a file, does one autocommit INSERT, returns as many bytes.

`python -m benchmarks.reference.write_server DSN PORT DIRECTORY`; POST /commits/{id}?file=<bytes>&answer=<bytes>. Frozen.
"""

import asyncio
import sys
import uuid
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import orjson
import psycopg
import uvloop
from aiohttp import web
from psycopg.rows import TupleRow

Connection = psycopg.AsyncConnection[TupleRow]

CONNECTIONS = 8
CREATE = """
create table if not exists reference_commits
  (position bigint generated always as identity primary key, id text not null, file text not null, body bytea not null)
"""
INSERT = "insert into reference_commits (id, file, body) values (%s, %s, %s)"


class HandOff:
    """A connection that comes free goes straight to the request that has waited longest."""

    def __init__(self, connections: Iterable[Connection]) -> None:
        self.free = list(connections)
        self.waiting: deque[asyncio.Future[Connection]] = deque()

    async def take(self) -> Connection:
        if self.free:
            return self.free.pop()
        turn: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        return await turn

    def give(self, connection: Connection) -> None:
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        self.free.append(connection)


async def connect(dsn: str) -> Connection:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0)


async def main(dsn: str, port: int, directory: str) -> None:
    async with await connect(dsn) as connection:
        await connection.execute(CREATE, prepare=False)
    hand_off = HandOff([await connect(dsn) for _ in range(CONNECTIONS)])

    async def commit(request: web.Request) -> web.Response:
        body = await request.read()
        parsed = orjson.loads(body)
        assert parsed["updates"]
        table = request.match_info["id"]
        folder = Path(directory) / table
        folder.mkdir(exist_ok=True)
        file = folder / f"{uuid.uuid4()}.json"
        file.write_bytes(b" " * int(request.query["file"]))
        connection = await hand_off.take()
        try:
            await connection.execute(INSERT, (table, str(file), body), binary=True)
        finally:
            hand_off.give(connection)
        return web.Response(body=b" " * int(request.query["answer"]), headers={"Content-Type": "application/json"})

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/commits/{id}", commit)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=512).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
