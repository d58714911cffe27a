"""The purge of one table, with a store that only deletes."""

from collections.abc import Sequence
from typing import Any, cast

from icecore.commands.tables.table_purge import DELETE_PAGE_FILES, NamedFiles, TablePurge
from icecore.storage.locations import StorageLocation


class Deleting:
    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        pass


async def nothing() -> None:
    pass


async def test_each_page_that_is_deleted_is_progress() -> None:
    """Otherwise an attempt with many files would be ended though it goes on."""
    pages: list[None] = []
    files = tuple(f"file:///w/t/{number}" for number in range(2 * DELETE_PAGE_FILES + 1))
    named = NamedFiles((), files, ("local|file:///w/t/",))
    purge = TablePurge(cast(Any, Deleting()), "local", named, cast(Any, None), nothing, lambda: pages.append(None))
    purged = await purge.run()
    assert (len(files), 3) == (purged.deleted, len(pages))
