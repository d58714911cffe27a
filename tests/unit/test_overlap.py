"""Work beside the fold: one after the other, and whatever it raises is heard."""

import asyncio

import pytest

from projections.overlap import OneBehind


class CopyFailed(Exception):
    pass


async def test_work_goes_on_beside_its_user_one_after_the_other() -> None:
    """The second begins when the first has ended; leaving the block waits for the last."""
    done: list[str] = []
    may_end = asyncio.Event()

    async def work(name: str) -> None:
        await may_end.wait()
        done.append(name)

    async with OneBehind() as behind:
        await behind.start(work("first"))
        assert [] == done, "its user goes on meanwhile"
        may_end.set()
        await behind.start(work("second"))
        assert ["first"] == done
    assert ["first", "second"] == done


async def test_what_work_raises_is_raised_by_the_next_start() -> None:
    """Which does not begin what it was given."""
    done: list[str] = []

    async def fail() -> None:
        raise CopyFailed

    async def work() -> None:
        done.append("work")

    async def user() -> None:
        async with OneBehind() as behind:
            await behind.start(fail())
            await behind.start(work())

    with pytest.raises(CopyFailed):
        await user()
    assert [] == done


async def test_what_the_last_work_raises_is_raised_at_the_end() -> None:
    """Nothing is lost because nobody started anything after it."""

    async def fail() -> None:
        raise CopyFailed

    async def user() -> None:
        async with OneBehind() as behind:
            await behind.start(fail())

    with pytest.raises(CopyFailed):
        await user()


async def test_work_is_ended_when_its_user_fails() -> None:
    """Nothing goes on behind an error; the error stays what it was."""
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def user() -> None:
        async with OneBehind() as behind:
            await behind.start(work())
            await asyncio.sleep(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await user()
    assert ["work"] == ended
