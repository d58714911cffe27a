"""Sends the metrics of a child process to its parent over a pair of connected sockets.

The parent writes an empty line, and the child responds with one line of JSON (`ProcessMetrics.to_json`). No file system, port or right is
involved: only these two processes have the sockets, which end with them.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import structlog

from .metrics import ProcessMetrics, ReadMetrics, ServeMetrics, metrics_from_json

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Limit on a response. One of every operation with 10 statuses has 0.2 MB."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.metrics")


class MetricsChannel:
    """The parent's end, for one child."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asking = asyncio.Lock()
        self._response_pending = False

    @classmethod
    async def open(cls, end: socket.socket) -> "MetricsChannel":
        return cls(*await asyncio.open_unix_connection(sock=end, limit=LINE_BYTES_MAX))

    async def read(self) -> ProcessMetrics:
        """Requests the child's metrics. Raises OSError if it has ended, ValueError if its response is too long. May be cancelled."""
        async with self._asking:
            if self._response_pending:
                # The sender of an earlier request did not wait for its response, which would be taken for the next one.
                await self._response()
            self._response_pending = True
            self._writer.write(b"\n")
            return metrics_from_json(await self._response())

    def close(self) -> None:
        self._writer.close()

    async def _response(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the child has ended")
        self._response_pending = False
        return line


def metrics_of(parameters: Mapping[str, Any]) -> ServeMetrics | None:
    """In a child: how it shows its metrics, by the parameters from its parent; None if the parent does not request them."""
    return partial(responding_to_parent, parameters["metrics-descriptor"]) if "metrics-descriptor" in parameters else None


@contextlib.asynccontextmanager
async def responding_to_parent(descriptor: int, read: ReadMetrics) -> AsyncIterator[None]:
    """In a child: responds to its parent's requests while the block runs.

    descriptor -- the child's end.
    """
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
    responding = asyncio.create_task(_response(reader, writer, read), name="metrics")
    try:
        yield
    finally:
        responding.cancel()
        await asyncio.gather(responding, return_exceptions=True)


async def _response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, read: ReadMetrics) -> None:
    try:
        while await reader.readline():
            writer.write((await read()).to_json() + b"\n")
            await writer.drain()
    except ConnectionError:
        # The parent has ended. The child stops when its standard input is closed.
        pass
    except Exception:
        _log.exception("metrics_failed")
    finally:
        # The parent need not wait for a response.
        writer.close()
