"""`icecore serve --workers 2` as real processes: starts it, kills or stops its workers one by one, and ends it."""

import asyncio
import base64
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from benchmarks.reliability.cluster import children
from tests.servers.processes import free_port

_START_SECONDS_MAX = 60
_STOP_SECONDS_MAX = 40
# Open descriptors of a serving worker. A worker that is still starting has 12.
_DESCRIPTORS_SERVING_MIN = 16
SECRET_KEY = base64.b64encode(bytes(32)).decode()


class Server:
    """The supervisor and its workers; their output goes to `log`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self._process = process
        self.url = url
        self._log = log
        self._asked: set[int] = set()

    def workers(self) -> list[int]:
        """The serving processes, without the process of background jobs."""
        return sorted(child for child in children(self._process.pid) if _serves(child))

    def serving_workers(self) -> list[int]:
        """The workers that have started: they have connections to clients and to Postgres."""
        return [worker for worker in self.workers() if worker not in self._asked and _descriptors(worker) >= _DESCRIPTORS_SERVING_MIN]

    def kill(self, worker: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)

    def ask_to_stop(self, worker: int) -> None:
        # A second signal would end it at once.
        self._asked.add(worker)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)

    def faults(self) -> dict[str, int]:
        """The number of actions of each fault point."""
        counts: dict[str, int] = {}
        for point, action in re.findall(r"^fault_point (\S+) (\S+) ", self._log.read_text(errors="replace"), re.MULTILINE):
            counts[f"{point}:{action}"] = counts.get(f"{point}:{action}", 0) + 1
        return counts

    def fault_kills(self) -> list[float]:
        """When fault points killed a worker."""
        return [float(at) for at in re.findall(r"^fault_point \S+ kill .* at=(\S+)$", self._log.read_text(errors="replace"), re.MULTILINE)]

    def workers_that_committed(self) -> set[str]:
        """The names of the serving processes that logged a commit."""
        return set(re.findall(r'"operation":"updateTable".*"process":"(serving-\d+)"', self._log.read_text(errors="replace")))

    async def stop(self) -> int:
        """Stops it as an operator does; returns its exit code."""
        if self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS_MAX):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        return await self._process.wait()


@asynccontextmanager
async def serving(dsn: str, scratch: Path, workers: int, environment: Mapping[str, str]) -> AsyncIterator[Server]:
    """A server on that database for the length of the block."""
    port, log = free_port(), scratch / "icecore.log"
    own = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    own |= {
        "ICECORE_DATABASE_URL": dsn,
        "ICECORE_SECRET_KEY": SECRET_KEY,
        "ICECORE_LOG_FORMAT": "json",
        "ICECORE_SHUTDOWN_GRACE_SECONDS": "10",
        "ICECORE_TEST_SCRATCH": str(scratch),
        **environment,
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.reliability.launcher", "serve", "--port", str(port), "--workers", str(workers),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=asyncio.subprocess.STDOUT, env=own,
            cwd=Path(__file__).parents[2], start_new_session=True,
        )  # fmt: skip
    server = Server(process, f"http://127.0.0.1:{port}", log)
    try:
        await _until_ready(process, log)
        yield server
    finally:
        await server.stop()


def _serves(process_id: int) -> bool:
    """Whether the child has executed its own program. Until then, it has its parent's command line."""
    with suppress(OSError):
        command = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
        return not {b"icecore.serving_process", b"benchmarks.reliability.worker"}.isdisjoint(command)
    return False


def _descriptors(process_id: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{process_id}/fd"))  # noqa: PTH208
    return 0


def _says(log: Path) -> str:
    return log.read_text(errors="replace")


async def _until_ready(process: asyncio.subprocess.Process, log: Path) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_SECONDS_MAX
    while '"serving"' not in _says(log):
        if process.returncode is not None or loop.time() > deadline:
            raise RuntimeError(f"icecore serve did not start: {_says(log)[-4000:]}")
        await asyncio.sleep(0.05)
