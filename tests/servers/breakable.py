"""A server that tests stop, kill, freeze, wipe and restart. Its ports and files stay the same."""

import abc
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.servers.processes import free_port, running


class BreakableServer(abc.ABC):
    """A process on a fixed port with its files in `directory`; its data is in `stored` below."""

    def __init__(self, directory: Path, stored: str) -> None:
        self.directory = directory
        self.port = free_port()
        self._stored = directory / stored
        self._process: subprocess.Popen[bytes] | None = None
        self._running = ExitStack()

    @property
    def runs(self) -> bool:
        return self._process is not None

    @abc.abstractmethod
    def start(self) -> None:
        """Starts it with the existing files."""

    def _launch(
        self,
        command: Sequence[str | Path],
        *,
        log: str,
        ready: Callable[[], bool],
        seconds_max: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        started = running(command, log=self.directory / log, ready=ready, seconds_max=seconds_max, environment=environment)
        self._process = self._running.enter_context(started)

    def stop(self) -> None:
        """Stops it with SIGTERM."""
        self.thaw()
        self._running.close()
        self._process = None

    def kill(self) -> None:
        """Kills it with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._running.close()
        self._process = None

    def wipe(self) -> None:
        """Deletes its data; only while it is stopped."""
        assert self._process is None
        shutil.rmtree(self._stored)

    def freeze(self) -> None:
        """Freezes it with SIGSTOP: it neither responds nor closes connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
