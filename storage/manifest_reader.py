"""Reads the names of files in Avro manifest lists and manifests, in a separate process (storage/manifest_process.py)."""

import asyncio
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import structlog

from ..domain.errors import ServiceUnavailable
from .environment_credentials import environment_without_credentials
from .locations import StorageLocation
from .manifest_protocol import RESPONSE_LENGTH, Kind
from .object_store import ObjectStore

MANIFEST_BYTES_MAX = 32 * 1024 * 1024
"""Limit on a stored manifest or manifest list. Writers aim at 8 MB (commit.manifest.target-size-bytes)."""
RESPONSE_SECONDS_MAX = 120.0
RESPONSE_BYTES_MAX = 32 * 1024 * 1024

STDERR_BYTES_MAX = 4_096
"""How much of the end of the process's standard error is logged."""

_log = structlog.get_logger("icecore.purge")


class UnreadableManifest(Exception):
    """The file is not a manifest, or needs more memory or time than permitted."""


async def read_names(
    reader: "ManifestReader", kind: Kind, store: ObjectStore, location: StorageLocation, *, seconds_max: float
) -> AsyncIterator[list[str | None]]:
    """Pages of the names in a stored manifest list or manifest, as `ManifestReader.pages`.

    Raises the errors of the store, PayloadTooLarge over MANIFEST_BYTES_MAX, UnreadableManifest, and ServiceUnavailable if the file is not
    read in `seconds_max`.
    """
    try:
        async with asyncio.timeout(seconds_max):
            data = await store.get(location, bytes_max=MANIFEST_BYTES_MAX)
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not respond: {location.text}") from None
    async for page in reader.pages(kind, data):
        yield page


class ManifestReaders:
    """A pool of processes, because starting one takes longer than reading a small table's manifests."""

    def __init__(self) -> None:
        self._idle: list[ManifestReader] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator["ManifestReader"]:
        """A reader for one table. A process that failed, or that keeps too much memory, is not reused."""
        reader = self._idle.pop() if self._idle else ManifestReader()
        keeps = False
        try:
            yield reader
            keeps = await reader.forget()
        finally:
            if keeps:
                self._idle.append(reader)
            else:
                await reader.end()

    async def close(self) -> None:
        """Ends the pooled processes. Later readers get new ones."""
        while self._idle:
            await self._idle.pop().end()


class ManifestReader:
    """One process, started on first use. It can have one manifest list and one manifest open."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._logging: asyncio.Task[None] | None = None
        self._failed = False

    async def pages(self, kind: Kind, data: bytes) -> AsyncIterator[list[str | None]]:
        """The names in the file, each once as long as the process remembers it; None for one that is too long.

        Raises UnreadableManifest, and ServiceUnavailable if the process was killed or does not respond.
        """
        names = await self._names({"open": kind, "bytes": len(data)}, data)
        while names:
            yield names
            names = await self._names({"next": kind})

    async def forget(self) -> bool:
        """Ends a table. Returns whether the process can be reused for the next one, with all of its memory."""
        if self._process is None:
            return True
        try:
            return not self._failed and bool((await self._request({"forget": True}))["as-new"])
        except ServiceUnavailable:
            return False

    async def _names(self, request: dict[str, Any], data: bytes = b"") -> list[str | None]:
        response = await self._request(request, data)
        if "error" in response:
            self._failed = True
            raise UnreadableManifest(response["error"])
        names: list[str | None] = response["names"]
        return names

    async def _request(self, request: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
        try:
            async with asyncio.timeout(RESPONSE_SECONDS_MAX):
                return await self._exchange(orjson.dumps(request) + b"\n", data)
        # uvloop raises RuntimeError on a write to a process that has ended.
        except (TimeoutError, OSError, RuntimeError, EOFError):
            await self.end()
            raise ServiceUnavailable("The process that reads manifests ended or did not respond") from None

    async def _exchange(self, request: bytes, data: bytes) -> dict[str, Any]:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                # -P: no module is imported from the working directory.
                sys.executable, "-P", "-m", "icecore.storage.manifest_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                # Manifests come from clients: no credential is where they are read.
                env=environment_without_credentials(),
                # Ctrl-C at a terminal reaches its whole group: this process ends when its standard input does.
                start_new_session=True,
            )  # fmt: skip
            assert self._process.stderr is not None
            self._logging = asyncio.create_task(_log_errors(self._process.stderr))
        requests, responses = self._process.stdin, self._process.stdout
        assert requests is not None
        assert responses is not None
        requests.write(request)
        requests.write(data)
        await requests.drain()
        (length,) = struct.unpack(RESPONSE_LENGTH, await responses.readexactly(struct.calcsize(RESPONSE_LENGTH)))
        if length > RESPONSE_BYTES_MAX:
            raise EOFError
        response: dict[str, Any] = orjson.loads(await responses.readexactly(length))
        return response

    async def end(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        logging, self._logging = self._logging, None
        if logging is not None:
            await logging


async def _log_errors(errors: asyncio.StreamReader) -> None:
    """Reads all of standard error, so that the process never blocks on writing, and logs the end of it."""
    kept = b""
    while read := await errors.read(STDERR_BYTES_MAX):
        kept = (kept + read)[-STDERR_BYTES_MAX:]
    if kept:
        _log.warning("manifest_process_errors", stderr=kept.decode(errors="replace"))
