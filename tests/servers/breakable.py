"""A server that tests stop, kill, freeze, wipe and start again: its ports and its files stay."""

import abc
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.servers.processes import free_port, running


class BreakableServer(abc.ABC):
    """One process on a fixed port with its files in `directory`; what it stores lies in `stored` below."""

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
        """Starts it on the files that are there."""

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
        """Asks it to end."""
        self.thaw()
        self._running.close()
        self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._running.close()
        self._process = None

    def wipe(self) -> None:
        """Everything it stored is gone; only while it is stopped."""
        assert self._process is None
        shutil.rmtree(self._stored)

    def freeze(self) -> None:
        """SIGSTOP: it neither answers nor closes a connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
