"""Checks that the store of a new warehouse permits what engines do below its base: write, read, list and delete one object."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from secrets import token_bytes, token_hex
from weakref import WeakValueDictionary

from ..domain.errors import CatalogError, ServiceUnavailable, StoreCheckFailed, TooManyRequests
from .locations import StorageLocation
from .object_store import ObjectStore
from .storage_profile import LocalProfile, StorageProfile
from .store_errors import at_endpoint

CHECK_SECONDS_MAX = 5.0
"""Limit on one check, including the store client's retries."""
CHECKS_OF_ONE_STORE_MAX = 4
"""Checks of one store in one process at a time."""
CHECKS_WAITING_OF_ONE_STORE_MAX = 32
"""Checks that wait for others of their store."""
STORE_CHECKS_MAX = 64
"""Checks of all stores in one process, in progress or waiting. Each holds a connection, which the server does not close while it works on
the request. One store can hold 36 of them.
"""
CHECK_WAIT_SECONDS_MAX = 10.0
"""How long a check waits for others of its store."""

_OBJECT_BYTES = 64


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of one check; `failure` is None if it passed."""

    name: str
    seconds: float
    failure: str | None = None


class TooManyStoreChecks(TooManyRequests, status=429, type="TooManyRequestsException"):
    """Too many checks of stores are waiting or in progress; nothing was done."""

    retry_after_seconds = 1


class _StoreSemaphore(asyncio.Semaphore):
    waiting = 0


class StoreCheckLimit:
    """Limits the checks of one store, because clients could make the server send it any number of requests, and those of all stores."""

    def __init__(self) -> None:
        self._checks = 0
        # Checks in progress hold them. Clients name the stores, so no others are kept.
        self._semaphores: WeakValueDictionary[str, _StoreSemaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def acquired(self, storage_identity: str) -> AsyncIterator[None]:
        """A block that checks a store with that identity.

        Raises TooManyStoreChecks if there are too many others, and ServiceUnavailable if too many of the same store do not end in time.
        """
        if self._checks >= STORE_CHECKS_MAX:
            raise TooManyStoreChecks(f"{STORE_CHECKS_MAX} store checks are already in progress or waiting; try again later")
        self._checks += 1
        try:
            async with self._acquired_of_store(storage_identity):
                yield
        finally:
            self._checks -= 1

    @asynccontextmanager
    async def _acquired_of_store(self, storage_identity: str) -> AsyncIterator[None]:
        semaphore = self._semaphores.setdefault(storage_identity, _StoreSemaphore(CHECKS_OF_ONE_STORE_MAX))
        if semaphore.waiting >= CHECKS_WAITING_OF_ONE_STORE_MAX:
            raise TooManyStoreChecks(f"{CHECKS_WAITING_OF_ONE_STORE_MAX} store checks are already waiting; try again later")
        semaphore.waiting += 1
        try:
            async with asyncio.timeout(CHECK_WAIT_SECONDS_MAX):
                await semaphore.acquire()
        except TimeoutError:
            raise ServiceUnavailable("The store is being checked for other warehouses; try again later", retry_after_seconds=1) from None
        finally:
            semaphore.waiting -= 1
        try:
            yield
        finally:
            semaphore.release()


async def check_store(store: ObjectStore, profile: StorageProfile, on_check: Callable[[StoreCheck], None]) -> None:
    """Calls `on_check` with each check. Raises StoreCheckFailed after the first that fails. The object is deleted in any case."""
    location = _unused_location(profile)
    data = token_bytes(_OBJECT_BYTES)

    async def write() -> None:
        await store.put_new(location, data)

    async def read() -> str | None:
        return None if await store.get(location, bytes_max=_OBJECT_BYTES) == data else f"the store returned other bytes: {location}"

    async def list_folder() -> str | None:
        return None if await store.is_listed(location) else f"the listing does not contain the object: {location}"

    async def delete() -> str | None:
        await store.delete([location])
        return f"the store still has the deleted object: {location}" if await store.exists(location) else None

    no_response = f"the store{at_endpoint(profile.endpoint_url)} did not respond in {CHECK_SECONDS_MAX:g} seconds: {location}"
    deleted = False
    try:
        for name, check in (("write", write), ("read", read), ("list", list_folder), ("delete", delete)):
            made = await _made(name, check, no_response)
            on_check(made)
            if made.failure is not None:
                raise StoreCheckFailed(f"The store failed the check {name!r} ({made.seconds * 1000:.0f} ms): {made.failure}")
        deleted = True
    finally:
        if not deleted:
            # The object may exist although the write failed.
            with suppress(CatalogError, TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS_MAX):
                    await store.delete([location])


def _unused_location(profile: StorageProfile) -> StorageLocation:
    name = f"icecore-check-{token_hex(16)}"
    # In a bucket, a prefix of its own, so that its listing is short. Not locally, where the folder would remain.
    return profile.base.child(name) if isinstance(profile, LocalProfile) else profile.base.child(name, "object")


async def _made(name: str, check: Callable[[], Awaitable[str | None]], no_response: str) -> StoreCheck:
    """no_response -- the failure of a check that takes too long."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            failure = await check()
    except TimeoutError:
        failure = no_response
    except CatalogError as refusal:
        failure = refusal.message
    return StoreCheck(name, time.monotonic() - began, failure)
