"""Turns of those who work on large documents."""

import asyncio

import pytest

from domain.errors import TooManyRequests
from storage.large_documents import BYTES_AT_ONCE_MAX, LargeDocuments

HALF = BYTES_AT_ONCE_MAX // 2


async def _worked(documents: LargeDocuments, size: int, done: asyncio.Event, begun: list[int]) -> None:
    async with documents.share() as share:
        await share.take(size)
        begun.append(size)
        await done.wait()


async def _begun(documents: LargeDocuments, sizes: list[int]) -> tuple[list[int], list[int]]:
    """Who has begun while nobody has ended, and in which order all have in the end."""
    done, begun = asyncio.Event(), list[int]()
    async with asyncio.TaskGroup() as together:
        for size in sizes:
            together.create_task(_worked(documents, size, done, begun))
        await asyncio.sleep(0)
        first = [*begun]
        done.set()
    return first, begun


async def test_as_many_as_there_is_room_for_in_the_order_they_came() -> None:
    sizes = [HALF, HALF, 1, 2 * BYTES_AT_ONCE_MAX, 2]
    assert ([HALF, HALF], sizes) == await _begun(LargeDocuments(), sizes)


async def test_one_that_is_alone_may_be_of_any_size() -> None:
    sizes = [3 * BYTES_AT_ONCE_MAX, 1]
    assert (sizes[:1], sizes) == await _begun(LargeDocuments(), sizes)


async def test_who_waited_too_long_or_went_away_leaves_room_for_others() -> None:
    documents = LargeDocuments(wait_seconds_max=0.05)
    async with documents.share() as share:
        await share.take(HALF)
        with pytest.raises(TooManyRequests, match="in turns"):
            async with documents.share() as other:
                await other.take_all()
        gone = asyncio.create_task(documents.take(BYTES_AT_ONCE_MAX))
        await asyncio.sleep(0)
        behind = asyncio.create_task(documents.take(HALF))
        await asyncio.sleep(0)
        gone.cancel()
        await behind
    documents._give_back(HALF)
    assert documents._held == 0
