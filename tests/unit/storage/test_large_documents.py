"""Requests wait for memory for large documents, in order."""

import asyncio

import pytest

from icecore.domain.errors import TooManyRequests
from icecore.storage.large_documents import BYTES_AT_ONCE_MAX, LargeDocuments, ShareWaitEnded

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
        with pytest.raises(TooManyRequests, match="took longer"):
            async with documents.share() as other:
                await other.take_all()
        done = asyncio.Event()
        done.set()
        gone = asyncio.create_task(_worked(documents, BYTES_AT_ONCE_MAX, done, []))
        await asyncio.sleep(0)
        behind = asyncio.create_task(_worked(documents, HALF, done, []))
        await asyncio.sleep(0)
        gone.cancel()
        await behind
    assert documents._held == 0


async def test_room_that_is_given_back_while_somebody_goes_away_is_the_next_ones() -> None:
    """Who was cancelled has not heard of it yet when the turn comes to him."""
    documents, done = LargeDocuments(), asyncio.Event()
    done.set()
    async with documents.share() as share:
        await share.take(BYTES_AT_ONCE_MAX)
        gone = asyncio.create_task(_worked(documents, HALF, done, []))
        behind = asyncio.create_task(_worked(documents, HALF, done, []))
        await asyncio.sleep(0)
        gone.cancel()
    await behind
    assert gone.cancelled() or (await asyncio.wait({gone}))[0]
    assert documents._held == 0


async def test_who_may_not_wait_steps_back() -> None:
    """From the beginning, or once it is asked to; where there is room it is taken."""
    documents = LargeDocuments()
    async with documents.share() as share:
        await share.take(BYTES_AT_ONCE_MAX)
        async with documents.share(lambda: False) as other:
            with pytest.raises(ShareWaitEnded):
                await other.take(HALF)
        async with documents.share() as other:
            waiting = asyncio.create_task(other.take(HALF))
            await asyncio.sleep(0)
            assert other.end_wait()
            with pytest.raises(ShareWaitEnded):
                await waiting
            assert not other.end_wait()
    async with documents.share() as other:
        async with documents.share() as share:
            await share.take(BYTES_AT_ONCE_MAX)
            waiting = asyncio.create_task(other.take(HALF))
            await asyncio.sleep(0)
            # Just before there is room.
            assert other.end_wait()
        with pytest.raises(ShareWaitEnded):
            await waiting
    assert documents._held == 0
    async with documents.share(lambda: False) as other:
        await other.take(HALF)
    assert documents._held == 0


@pytest.mark.parametrize("behind", [False, True], ids=["the last", "with another behind"])
async def test_who_gives_up_just_when_there_is_room_takes_none(behind: bool) -> None:
    """The holder lets go between the end of a wait and the turn of the loop in which the one who waited hears of it."""
    documents, done = LargeDocuments(), asyncio.Event()

    async def one() -> None:
        async with documents.share() as share:
            await share.take(BYTES_AT_ONCE_MAX)
            await done.wait()

    async with documents.share() as share:
        await share.take(BYTES_AT_ONCE_MAX)
        waiting = [asyncio.create_task(one()) for _ in range(1 + behind)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    done.set()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [True] + [False] * behind == [isinstance(end, asyncio.CancelledError) for end in ends]
    assert documents._held == 0


async def test_who_keeps_less_than_was_taken_lets_the_next_in() -> None:
    """A file is read with all the room there is, and worked on for long with what it needs."""
    documents = LargeDocuments(wait_seconds_max=5)
    async with documents.share() as share, documents.share() as other:
        await share.take_all()
        waiting = asyncio.create_task(other.take(HALF))
        await asyncio.sleep(0)
        share.keep(HALF + 1)
        await asyncio.sleep(0)
        assert not waiting.done()
        share.keep(HALF)
        await waiting
    assert documents._held == 0
