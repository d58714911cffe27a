"""The reference for reads: aiohttp on uvloop, one prepared SELECT of a stored body per request over a FIFO hand-off of connections.

`python -m benchmarks.reference.read_server DSN PORT`; GET /bodies/{id}. No middleware, no access log, one process. Frozen.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable

import psycopg
import uvloop
from aiohttp import web
from psycopg.rows import TupleRow

Connection = psycopg.AsyncConnection[TupleRow]

CONNECTIONS = 8
CREATE = """
create table if not exists reference_bodies (id text primary key, body bytea not null);
alter table reference_bodies alter column body set storage external;
"""
SELECT = "select body from reference_bodies where id = %s"


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


async def main(dsn: str, port: int) -> None:
    async with await connect(dsn) as connection:
        await connection.execute(CREATE, prepare=False)
    hand_off = HandOff([await connect(dsn) for _ in range(CONNECTIONS)])

    async def body(request: web.Request) -> web.Response:
        connection = await hand_off.take()
        try:
            cursor = await connection.execute(SELECT, (request.match_info["id"],), binary=True)
            row = await cursor.fetchone()
        finally:
            hand_off.give(connection)
        if row is None:
            return web.Response(status=404)
        return web.Response(body=row[0], headers={"Content-Type": "application/json"})

    app = web.Application()
    app.router.add_get("/bodies/{id}", body)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=512).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
