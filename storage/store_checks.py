"""Checks that the store of a new warehouse permits what engines do below its base: write, read, list and delete one object."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_bytes, token_hex

from ..domain.errors import CatalogError, StoreCheckFailed
from .locations import StorageLocation
from .object_store import ObjectStore
from .storage_profile import LocalProfile, StorageProfile

CHECK_SECONDS_MAX = 5.0
"""Limit on one check, including the store client's retries."""

_OBJECT_BYTES = 64


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of one check; `failure` is None if it passed."""

    name: str
    seconds: float
    failure: str | None = None


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

    deleted = False
    try:
        for name, check in (("write", write), ("read", read), ("list", list_folder), ("delete", delete)):
            made = await _made(name, check)
            on_check(made)
            if made.failure is not None:
                raise StoreCheckFailed(f"The store failed the check {name!r} ({made.seconds:.1f} s): {made.failure}")
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


async def _made(name: str, check: Callable[[], Awaitable[str | None]]) -> StoreCheck:
    began = time.monotonic()
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            failure = await check()
    except TimeoutError:
        failure = f"the store did not respond in {CHECK_SECONDS_MAX:g} seconds"
    except CatalogError as refusal:
        failure = refusal.message
    return StoreCheck(name, time.monotonic() - began, failure)
