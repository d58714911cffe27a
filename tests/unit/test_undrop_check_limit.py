"""Undrops that read manifests wait for each other: two at a time, one of each project."""

import asyncio
from uuid import UUID, uuid4

import pytest

from icecore.commands.tabulars import undrop_check_limit
from icecore.commands.tabulars.undrop_check_limit import UNDROP_CHECKS_MAX, UndropCheckLimit
from icecore.domain.errors import ServiceUnavailable


class Checks:
    """Checks that last until they are ended, in the order in which they began."""

    def __init__(self) -> None:
        self.limit = UndropCheckLimit()
        self.begun: list[UUID] = []
        self.running: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()

    async def begin(self, *projects: UUID) -> None:
        for project in projects:
            self.running.append(asyncio.create_task(self._check(project)))
        for _ in range(10):
            await asyncio.sleep(0)

    async def _check(self, project: UUID) -> None:
        async with self.limit.acquired(project):
            self.begun.append(project)
            await self.ended.wait()

    async def end(self) -> None:
        self.ended.set()
        await asyncio.gather(*self.running)


async def test_one_project_leaves_room_for_another() -> None:
    """However many undrops it has. Those of more projects than there is room for wait, and then all end."""
    checks, slow, other, third = Checks(), uuid4(), uuid4(), uuid4()
    await checks.begin(slow, slow, slow, slow, slow, slow)
    assert [slow] == checks.begun
    await checks.begin(other)
    assert [slow, other] == checks.begun
    await checks.begin(third)
    assert UNDROP_CHECKS_MAX == len(checks.begun)
    await checks.end()
    assert [slow, other, third] == checks.begun[:3] or [slow, other, slow] == checks.begun[:3]
    assert 8 == len(checks.begun)


async def test_the_wait_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the check. One that waited in vain or was cancelled leaves its place to others."""
    monkeypatch.setattr(undrop_check_limit, "CHECK_WAIT_SECONDS_MAX", 0.1)
    checks, project = Checks(), uuid4()
    await checks.begin(project)
    with pytest.raises(ServiceUnavailable, match="Too many undrops") as refused:
        async with checks.limit.acquired(project):
            raise AssertionError
    assert 1 == refused.value.retry_after_seconds
    await checks.begin(project)
    checks.running[1].cancel()
    await asyncio.gather(checks.running.pop(), return_exceptions=True)
    await asyncio.sleep(0.3)
    assert not checks.running[0].done()
    await checks.end()
    async with asyncio.timeout(5.0), checks.limit.acquired(project), checks.limit.acquired(uuid4()):
        pass


async def test_an_error_in_the_check_stays_what_it_is() -> None:
    """A timeout in the block is not one of the wait, and the place is free again."""
    limit, project = UndropCheckLimit(), uuid4()
    for _ in range(UNDROP_CHECKS_MAX + 1):
        with pytest.raises(TimeoutError):
            async with limit.acquired(project):
                raise TimeoutError
