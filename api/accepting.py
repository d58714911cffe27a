"""Closes the listening socket of a server without losing connections that asyncio has accepted."""

import asyncio
from collections.abc import Iterable
from socket import socket


async def stop_accepting(listening: Iterable[socket]) -> None:
    """Stops accepting connections on the sockets of asyncio's servers, which can be closed afterwards.

    An accepted connection gets its transport in the next turn of the event loop. If its server is closed by then, it gets no protocol and
    is never closed, and its client waits until the process ends (https://github.com/python/cpython/issues/109564).
    """
    loop = asyncio.get_running_loop()
    for each in listening:
        loop.remove_reader(each)
    # One turn for the transports, and one for the protocols.
    for _ in range(2):
        await asyncio.sleep(0)
