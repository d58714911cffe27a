"""Requests wait for memory for large documents, first in, first out."""

import asyncio

import pytest

from icecore.domain.errors import TooManyRequests
from icecore.storage import large_documents
from icecore.storage.large_documents import BYTES_CONCURRENT_MAX, LARGE_BYTES_MIN, LargeDocuments, ReservationWaitEnded

HALF = BYTES_CONCURRENT_MAX // 2


async def _worked(documents: LargeDocuments, size: int, done: asyncio.Event, begun: list[int]) -> None:
    async with documents.reservation() as reservation:
        await reservation.reserve(size)
        begun.append(size)
        await done.wait()


async def _begun(documents: LargeDocuments, sizes: list[int]) -> tuple[list[int], list[int]]:
    """Which requests begin before any has ended, and the order in which all begin."""
    done, begun = asyncio.Event(), list[int]()
    async with asyncio.TaskGroup() as together:
        for size in sizes:
            together.create_task(_worked(documents, size, done, begun))
        await asyncio.sleep(0)
        first = [*begun]
        done.set()
    return first, begun


async def test_as_many_as_there_is_room_for_in_the_order_they_came() -> None:
    sizes = [HALF, HALF, 1, 2 * BYTES_CONCURRENT_MAX, 2]
    assert ([HALF, HALF], sizes) == await _begun(LargeDocuments(), sizes)


async def test_one_that_is_alone_may_be_of_any_size() -> None:
    sizes = [3 * BYTES_CONCURRENT_MAX, 1]
    assert (sizes[:1], sizes) == await _begun(LargeDocuments(), sizes)


async def test_timed_out_and_cancelled_requests_leave_memory_for_others() -> None:
    documents = LargeDocuments(wait_seconds_max=0.05)
    async with documents.reservation() as reservation:
        await reservation.reserve(HALF)
        with pytest.raises(TooManyRequests, match="The request waited"):
            async with documents.reservation() as other:
                await other.reserve_all()
        done = asyncio.Event()
        done.set()
        gone = asyncio.create_task(_worked(documents, BYTES_CONCURRENT_MAX, done, []))
        await asyncio.sleep(0)
        behind = asyncio.create_task(_worked(documents, HALF, done, []))
        await asyncio.sleep(0)
        gone.cancel()
        await behind
    assert documents._bytes_in_use == 0


async def test_memory_released_to_a_cancelled_request_goes_to_the_next() -> None:
    """A request is cancelled after its turn has come but before it runs. The next one must get the memory."""
    documents, done = LargeDocuments(), asyncio.Event()
    done.set()
    async with documents.reservation() as reservation:
        await reservation.reserve(BYTES_CONCURRENT_MAX)
        gone = asyncio.create_task(_worked(documents, HALF, done, []))
        behind = asyncio.create_task(_worked(documents, HALF, done, []))
        await asyncio.sleep(0)
        gone.cancel()
    await behind
    assert gone.cancelled() or (await asyncio.wait({gone}))[0]
    assert documents._bytes_in_use == 0


async def test_a_request_that_may_not_wait_gives_up() -> None:
    """At once, or when it is asked to. If there is memory, it is reserved."""
    documents = LargeDocuments()
    async with documents.reservation() as reservation:
        await reservation.reserve(BYTES_CONCURRENT_MAX)
        async with documents.reservation(lambda: False) as other:
            with pytest.raises(ReservationWaitEnded):
                await other.reserve(HALF)
        async with documents.reservation() as other:
            waiting = asyncio.create_task(other.reserve(HALF))
            await asyncio.sleep(0)
            assert other.end_wait()
            with pytest.raises(ReservationWaitEnded):
                await waiting
            assert not other.end_wait()
    async with documents.reservation() as other:
        async with documents.reservation() as reservation:
            await reservation.reserve(BYTES_CONCURRENT_MAX)
            waiting = asyncio.create_task(other.reserve(HALF))
            await asyncio.sleep(0)
            # Shortly before there is memory.
            assert other.end_wait()
        with pytest.raises(ReservationWaitEnded):
            await waiting
    assert documents._bytes_in_use == 0
    async with documents.reservation(lambda: False) as other:
        await other.reserve(HALF)
    assert documents._bytes_in_use == 0


@pytest.mark.parametrize("behind", [False, True], ids=["the last", "with another behind"])
async def test_a_wait_that_ends_just_when_there_is_memory_reserves_none(behind: bool) -> None:
    """The holder releases its memory after the wait has ended and before the waiting task runs."""
    documents, done = LargeDocuments(), asyncio.Event()

    async def one() -> None:
        async with documents.reservation() as reservation:
            await reservation.reserve(BYTES_CONCURRENT_MAX)
            await done.wait()

    async with documents.reservation() as reservation:
        await reservation.reserve(BYTES_CONCURRENT_MAX)
        waiting = [asyncio.create_task(one()) for _ in range(1 + behind)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    done.set()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [True] + [False] * behind == [isinstance(end, asyncio.CancelledError) for end in ends]
    assert documents._bytes_in_use == 0


async def test_releasing_a_part_admits_the_next_request() -> None:
    """A file is read with the whole limit reserved; afterwards only what it needs is kept."""
    documents = LargeDocuments(wait_seconds_max=5)
    async with documents.reservation() as reservation, documents.reservation() as other:
        await reservation.reserve_all()
        waiting = asyncio.create_task(other.reserve(HALF))
        await asyncio.sleep(0)
        reservation.shrink(HALF + 1)
        await asyncio.sleep(0)
        assert not waiting.done()
        reservation.shrink(HALF)
        await waiting
    assert documents._bytes_in_use == 0


async def test_another_attempt_reserves_what_it_needs_itself() -> None:
    """Instead of what the one before it did, whether that is more or less; nothing for small documents."""
    documents = LargeDocuments()
    async with documents.reservation() as reservation:
        for size, expected in (
            (HALF, HALF),
            (2 * HALF, 2 * HALF),
            (HALF, HALF),
            (LARGE_BYTES_MIN - 1, 0),
            (LARGE_BYTES_MIN, LARGE_BYTES_MIN),
        ):
            await reservation.reserve_anew(size)
            assert (expected, expected) == (reservation.size, documents._bytes_in_use)
    assert 0 == documents._bytes_in_use


async def test_memory_is_returned_after_the_last_of_several_large_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, because it takes a while. Otherwise a server would keep the memory of its largest document. Not after small documents."""
    trimmed = list[int]()
    monkeypatch.setattr(large_documents, "_malloc_trim", lambda: trimmed.append)
    monkeypatch.setattr(large_documents, "_TRIM_AFTER_SECONDS", 0)
    documents = LargeDocuments()
    async with documents.reservation() as reservation:
        await reservation.reserve_if_large(LARGE_BYTES_MIN - 1)
    assert documents._trimming is None
    for _ in range(3):
        async with documents.reservation() as reservation:
            await reservation.reserve_if_large(LARGE_BYTES_MIN)
    assert documents._trimming is not None
    await documents._trimming
    assert [0] == trimmed
