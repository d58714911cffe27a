"""A server that stops waits for the requests it has received."""

import asyncio

import pytest

from icecore.api import in_flight_requests
from icecore.api.in_flight_requests import InFlightRequests


async def test_a_request_that_is_read_a_moment_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes had arrived but were not read yet when the server was stopped."""
    monkeypatch.setattr(in_flight_requests, "QUIET_SECONDS", 0.2)
    requests = InFlightRequests()
    ending = asyncio.create_task(requests.drain())
    await asyncio.sleep(0.02)
    requests.begin()
    await asyncio.sleep(0.5)
    assert not ending.done()
    requests.end()
    async with asyncio.timeout(5):
        await ending


async def test_a_server_that_is_sent_nothing_ends() -> None:
    requests = InFlightRequests()
    requests.begin()
    requests.end()
    async with asyncio.timeout(5):
        await requests.drain()
