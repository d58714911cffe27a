"""Closes the listening socket of a server without losing connections that asyncio has accepted."""

import asyncio
from collections.abc import Iterable
from socket import socket


async def stop_accepting(listening: Iterable[socket]) -> None:
    """Accepts no more on the sockets of asyncio's servers, which may be closed then.

    A connection that is accepted gets its transport a turn of the event loop later. If its server was closed by then, it gets no protocol,
    and nobody closes it: its client waits for as long as the process lives (https://github.com/python/cpython/issues/109564).
    """
    loop = asyncio.get_running_loop()
    for each in listening:
        loop.remove_reader(each)
    # A turn for the transports, and one for the protocols.
    for _ in range(2):
        await asyncio.sleep(0)
