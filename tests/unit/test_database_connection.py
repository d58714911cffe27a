"""Opening a connection to a host that accepts it and says nothing, alone or in a list of hosts."""

import asyncio
import socket
import time
from collections.abc import Iterator

import psycopg
import pytest

from icecore.database.connection import connect
from icecore.database.host_lists import host_count


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield f"postgresql://icecore@127.0.0.1:{opened.getsockname()[1]}/icecore"


async def test_a_host_that_says_nothing_is_an_error_in_seconds(silent: str) -> None:
    """psycopg would wait for more than two minutes. Through a pool of transactions too, at the same time."""
    async with asyncio.timeout(20):
        opened = [connect(silent, transaction_pooled=transaction_pooled) for transaction_pooled in (False, True)]
        ended = await asyncio.gather(*opened, return_exceptions=True)
    assert [psycopg.errors.ConnectionTimeout] * 2 == [type(each) for each in ended]


async def test_the_timeout_of_the_url_takes_precedence(silent: str) -> None:
    """For a database that starts slowly, or to fail sooner."""
    began = time.monotonic()
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        await connect(f"{silent}?connect_timeout=2", connect_timeout=10)
    assert time.monotonic() - began < 4


def test_a_list_of_hosts_is_counted() -> None:
    """Each has the limit on opening a connection."""
    counts = {"postgresql://a/c": 1, "postgresql://a,b:5433/c": 2, "host=a,b,c dbname=c": 3, "hostaddr=127.0.0.1,::1": 2, "dbname=c": 1}
    assert counts == {dsn: host_count(dsn) for dsn in counts}
