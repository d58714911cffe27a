"""The checks of a new warehouse's store, with stores that hang."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from icecore.api.errors import error_response
from icecore.commands.warehouses import create_warehouse
from icecore.commands.warehouses.create_warehouse import _CreationHandler
from icecore.commands.warehouses.requested_storage import RequestedStorage
from icecore.domain.errors import ServiceUnavailable, StoreCheckFailed, TooManyRequests
from icecore.storage import store_checks
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.store_checks import (
    CHECKS_OF_ONE_STORE_MAX,
    CHECKS_WAITING_OF_ONE_STORE_MAX,
    STORE_CHECKS_MAX,
    StoreCheck,
    StoreCheckLimit,
    check_store,
)

PROFILE = parse_storage_profile({"type": "s3", "bucket": "lake", "region": "eu-central-1"})


class Kept:
    """A store in memory. hangs -- names of methods that never return."""

    def __init__(self, *hangs: str) -> None:
        self.objects: dict[str, bytes] = {}
        self._hangs = hangs

    async def _ask(self, name: str) -> None:
        if name in self._hangs:
            await asyncio.sleep(60)

    async def put_new(self, location: object, data: bytes) -> None:
        await self._ask("put_new")
        if "refuse" in self._hangs:
            raise ServiceUnavailable("no")
        self.objects[str(location)] = data

    async def get(self, location: object, *, bytes_max: int) -> bytes:
        del bytes_max
        return self.objects[str(location)]

    async def is_listed(self, location: object) -> bool:
        return str(location) in self.objects

    async def exists(self, location: object) -> bool:
        return str(location) in self.objects

    async def delete(self, locations: list[object]) -> None:
        await self._ask("delete")
        for location in locations:
            self.objects.pop(str(location), None)


@pytest.mark.parametrize("hangs", [("put_new", "delete"), ("refuse", "delete"), ("delete",)])
async def test_a_store_that_hangs_is_refused_in_time(monkeypatch: pytest.MonkeyPatch, hangs: tuple[str, ...]) -> None:
    """Also where it hangs when the object of the check is deleted."""
    monkeypatch.setattr(store_checks, "CHECK_SECONDS_MAX", 0.1)
    made: list[StoreCheck] = []
    store: Any = Kept(*hangs)
    async with asyncio.timeout(10):
        with pytest.raises(StoreCheckFailed):
            await check_store(store, PROFILE, made.append)
    assert made[-1].failure is not None


async def test_a_store_that_is_not_being_checked_takes_no_memory() -> None:
    """Clients name the stores. The limit holds while one is checked, and for those that wait."""
    limit = StoreCheckLimit()
    for number in range(100):
        async with limit.acquired(f"s3@store-{number}:9000"):
            assert 1 == len(limit._semaphores)
    assert 0 == len(limit._semaphores)


async def test_checks_of_one_store_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a limit, and not for those of other stores."""
    monkeypatch.setattr(store_checks, "CHECK_WAIT_SECONDS_MAX", 0.1)
    limit = StoreCheckLimit()
    async with AsyncExitStack() as checks:
        for _ in range(CHECKS_OF_ONE_STORE_MAX):
            await checks.enter_async_context(limit.acquired("one"))
        with pytest.raises(ServiceUnavailable, match="store is being checked"):
            await checks.enter_async_context(limit.acquired("one"))
        await checks.enter_async_context(limit.acquired("other"))
    async with limit.acquired("one"):
        pass


async def test_few_checks_wait_for_others() -> None:
    """One more is refused at once. When those before it are done, there is room again."""
    limit, ends = StoreCheckLimit(), asyncio.Event()

    async def check() -> None:
        async with limit.acquired("one"):
            await ends.wait()

    checks = [asyncio.create_task(check()) for _ in range(CHECKS_OF_ONE_STORE_MAX + CHECKS_WAITING_OF_ONE_STORE_MAX)]
    await asyncio.sleep(0)
    async with asyncio.timeout(1.0):
        with pytest.raises(TooManyRequests, match="store checks are already waiting; try again later") as refused:
            await check()
    assert "1" == error_response(refused.value).headers["Retry-After"]
    async with limit.acquired("other"):
        pass
    checks[-1].cancel()
    await asyncio.sleep(0)
    checks[-1] = asyncio.create_task(check())
    ends.set()
    await asyncio.gather(*checks)


async def test_few_checks_of_all_stores_are_in_progress() -> None:
    """One more is refused at once, whichever store it names. One store leaves room for others."""
    limit, stores = StoreCheckLimit(), iter(range(1_000))

    async def refused() -> None:
        async with asyncio.timeout(1.0):
            with pytest.raises(TooManyRequests, match=f"{STORE_CHECKS_MAX} store checks are already in progress") as refusal:
                async with limit.acquired(f"store-{next(stores)}"):
                    pass
        assert "1" == error_response(refusal.value).headers["Retry-After"]

    async with AsyncExitStack() as checks:
        for _ in range(STORE_CHECKS_MAX - 1):
            await checks.enter_async_context(limit.acquired(f"store-{next(stores)}"))
        async with limit.acquired("last"):
            await refused()
        async with limit.acquired("last"):
            await refused()
    async with limit.acquired("after"):
        pass
    assert STORE_CHECKS_MAX > CHECKS_OF_ONE_STORE_MAX + CHECKS_WAITING_OF_ONE_STORE_MAX


async def test_checks_that_wait_in_vain_are_counted_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are those whose clients are gone."""
    monkeypatch.setattr(store_checks, "CHECK_WAIT_SECONDS_MAX", 0.01)
    limit = StoreCheckLimit()
    async with AsyncExitStack() as checks:
        for _ in range(CHECKS_OF_ONE_STORE_MAX):
            await checks.enter_async_context(limit.acquired("one"))
        for _ in range(STORE_CHECKS_MAX):
            with pytest.raises(ServiceUnavailable, match="store is being checked"):
                await checks.enter_async_context(limit.acquired("one"))
        async with limit.acquired("other"):
            pass


async def test_a_store_is_checked_once_for_each_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the command is decided again, because another one came first."""

    @asynccontextmanager
    async def creation_lock(_: object) -> AsyncIterator[None]:
        yield

    async def created(_: object) -> None:
        """The name is free."""

    monkeypatch.setattr(create_warehouse, "storage_lock", creation_lock)
    monkeypatch.setattr(_CreationHandler, "_created", created)
    made: list[StoreCheck] = []
    given: dict[str, Any] = dict.fromkeys(("command", "needs_review")) | {"context": SimpleNamespace(project_id=uuid4())}
    warehouse, store = SimpleNamespace(profile=PROFILE), Kept()
    storage = RequestedStorage(PROFILE, None, store, None)  # type: ignore[arg-type]
    executor = SimpleNamespace(skip_storage_validation=False, store_check_limit=StoreCheckLimit())
    async with AsyncExitStack() as opened:
        creation = _CreationHandler(
            **given, warehouse=warehouse, executor=executor, storage=storage, on_check=made.append, opened=opened,  # type: ignore[arg-type]
        )  # fmt: skip
        for _ in range(2):
            await creation.prepare()
    assert ["write", "read", "list", "delete"] == [check.name for check in made]
