"""The files without which engines cannot begin to read an undropped table or view: the metadata file, and the current snapshot's manifest
list."""

import asyncio
from collections.abc import Sequence

from ...access.warehouse import Warehouse
from ...domain.errors import BadRequest, FilesMissing, ServiceUnavailable
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import tables
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore
from ..execution.executor import CommandExecutor
from ..execution.gather import gather_errors

FILES_SECONDS_MAX = 60.0
_FILES_CONCURRENT_MAX = 10
_FILES_NAMED_MAX = 10


async def check_needed_files(executor: CommandExecutor, warehouse: Warehouse, states: Sequence[TableState | ViewState]) -> None:
    """Raises FilesMissing, and ServiceUnavailable if the store does not respond in FILES_SECONDS_MAX. Of tables only the heads are used."""
    files = [state.metadata_location for state in states]
    current = [
        (state.id, snapshot_id)
        for state in states
        if isinstance(state, TableState) and (snapshot_id := state.document.value.get("current-snapshot-id")) is not None
    ]
    if current:
        async with executor.connection() as connection:
            snapshots = await tables.read_snapshots(connection, current)
        files += [each["manifest-list"] for each in snapshots if each.get("manifest-list") is not None]
    if files:
        await _check_files(await executor.store(warehouse), files)


async def _check_files(store: ObjectStore, files: list[str]) -> None:
    """Raises FilesMissing, and ServiceUnavailable if the store does not respond in FILES_SECONDS_MAX."""
    missing: list[str] = []
    try:
        async with asyncio.timeout(FILES_SECONDS_MAX):
            for start in range(0, len(files), _FILES_CONCURRENT_MAX):
                together = files[start : start + _FILES_CONCURRENT_MAX]
                found: list[bool] = [False] * len(together)

                async def check(index: int, file: str, found: list[bool] = found) -> None:
                    found[index] = await _may_exist(store, file)

                for error in await gather_errors([check(*each) for each in enumerate(together)]):
                    if error is not None:
                        raise error
                missing += [file for file, exists in zip(together, found, strict=True) if not exists]
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not respond: {files[0]}") from None
    if missing:
        more = f" and {len(missing) - _FILES_NAMED_MAX} more" if len(missing) > _FILES_NAMED_MAX else ""
        named = ", ".join(sorted(missing)[:_FILES_NAMED_MAX])
        raise FilesMissing(
            f"Nothing was undropped, because files are missing in the store: {named}{more}; force undrops it anyway, but it cannot be read"
        )


async def _may_exist(store: ObjectStore, file: str) -> bool:
    """Also for a file that the warehouse does not reach, as a registered table may have."""
    try:
        return await store.exists(StorageLocation.parse_structure(file, field="file"))
    except BadRequest:
        return True
