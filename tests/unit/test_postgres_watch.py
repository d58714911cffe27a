"""The watch of the embedded Postgres while this process can open no files."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from icecore import serve
from icecore.embedded_postgres import restarted_on_failure, watch
from icecore.embedded_postgres.postmaster import is_postgres
from icecore.security.secrets import KEY_BYTES, SecretKey, SecretStore
from icecore.settings import Settings


async def test_a_look_that_fails_does_not_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one tells whether Postgres has died."""
    looks, enough, stop = 0, asyncio.Event(), asyncio.Event()

    def gone(_directory: Path) -> bool:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        loop.call_soon_threadsafe(enough.set)
        return False

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(watch, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(watch, "server_is_gone", gone)
    async with restarted_on_failure(tmp_path, stop):
        async with asyncio.timeout(5):
            await enough.wait()
        assert not stop.is_set()


def test_a_process_that_cannot_be_looked_at_is_not_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the watch would start a second Postgres."""

    def no_file(path: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(Path, "read_bytes", no_file)
    with pytest.raises(OSError, match="Too many open files"):
        is_postgres(os.getpid(), tmp_path)


async def test_a_restart_uses_the_state_directory_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the programs of Postgres were copied to."""
    given: list[object] = []

    def restarted(_: Path, stop: asyncio.Event, *, state_directory: Path) -> AbstractAsyncContextManager[None]:
        given.append(state_directory)
        return nullcontext()

    @asynccontextmanager
    async def no_worker(*_: object) -> AsyncIterator[None]:
        yield None

    async def served(*_: object) -> None: ...

    monkeypatch.setattr(serve, "restarted_on_failure", restarted)
    monkeypatch.setattr(serve, "worker_beside", no_worker)
    monkeypatch.setattr(serve, "_serve_alone", served)
    monkeypatch.setattr(serve, "stop_on_signals", lambda *_: None)
    settings = Settings(data_dir=tmp_path, embedded_state_dir=tmp_path / "state")
    with socket.socket() as listening:
        secrets = SecretStore(SecretKey(bytes(KEY_BYTES)))
        await serve._serve(settings, secrets, listening, None, lambda: None, embedded=True)
    assert [tmp_path / "state"] == given
