"""Names of the files in Avro manifest lists and manifests, read in a process beside this one (storage/manifest_process.py)."""

import asyncio
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import structlog

from ..domain.errors import ServiceUnavailable
from .manifest_protocol import ANSWER_LENGTH, Kind

MANIFEST_BYTES_MAX = 32 * 1024 * 1024
"""Of a manifest or manifest list, as it is stored: writers aim at 8 MB (commit.manifest.target-size-bytes)."""
ANSWER_SECONDS_MAX = 120.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024

STDERR_BYTES_MAX = 4_096
"""Of what the process writes to its standard error: its last words go into the log."""

_log = structlog.get_logger("icecore.purge")


class UnreadableManifest(Exception):
    """The file is no manifest, or takes more memory or time than is given to one."""


class ManifestReaders:
    """Processes that are kept from table to table, because starting one costs more than reading a small table's manifests."""

    def __init__(self) -> None:
        self._idle: list[ManifestReader] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator["ManifestReader"]:
        """For one table. A process that failed at anything, or keeps memory, is used for no other."""
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
        """Ends what is kept; a reader that is asked for later is a new one."""
        while self._idle:
            await self._idle.pop().end()


class ManifestReader:
    """One process, started when first asked; it can hold a list and a manifest open, one of each."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._logging: asyncio.Task[None] | None = None
        self._failed = False

    async def pages(self, kind: Kind, data: bytes) -> AsyncIterator[list[str | None]]:
        """The names in the file, each once for as long as the process remembers it; None for one that is too long to be a name.

        Raises UnreadableManifest, and ServiceUnavailable where the process was ended by somebody or does not answer.
        """
        names = await self._ask({"open": kind, "bytes": len(data)}, data)
        while names:
            yield names
            names = await self._ask({"next": kind})

    async def forget(self) -> bool:
        """Behind a table: whether the process is for the next one as it was for this one."""
        if self._process is None:
            return True
        try:
            return not self._failed and bool((await self._answer({"forget": True}))["as-new"])
        except ServiceUnavailable:
            return False

    async def _ask(self, request: dict[str, Any], data: bytes = b"") -> list[str | None]:
        answer = await self._answer(request, data)
        if "error" in answer:
            self._failed = True
            raise UnreadableManifest(answer["error"])
        names: list[str | None] = answer["names"]
        return names

    async def _answer(self, request: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await self._exchange(orjson.dumps(request) + b"\n", data)
        # uvloop raises RuntimeError at a write to a process that has ended.
        except (TimeoutError, OSError, RuntimeError, EOFError):
            await self.end()
            raise ServiceUnavailable("The process that reads manifests ended or did not answer") from None

    async def _exchange(self, request: bytes, data: bytes) -> dict[str, Any]:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                # -P: no module is taken from the working directory.
                sys.executable, "-P", "-m", "icecore.storage.manifest_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                # Ctrl-C at a terminal reaches its whole group: this process ends when its standard input does.
                start_new_session=True,
            )  # fmt: skip
            assert self._process.stderr is not None
            self._logging = asyncio.create_task(_log_errors(self._process.stderr))
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None
        assert taken is not None
        given.write(request)
        given.write(data)
        await given.drain()
        (length,) = struct.unpack(ANSWER_LENGTH, await taken.readexactly(struct.calcsize(ANSWER_LENGTH)))
        if length > ANSWER_BYTES_MAX:
            raise EOFError
        answer: dict[str, Any] = orjson.loads(await taken.readexactly(length))
        return answer

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
    """Reads all of it, so that the process never waits for a reader; the end of it is logged."""
    kept = b""
    while read := await errors.read(STDERR_BYTES_MAX):
        kept = (kept + read)[-STDERR_BYTES_MAX:]
    if kept:
        _log.warning("manifest_process_errors", stderr=kept.decode(errors="replace"))
