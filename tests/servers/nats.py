"""A NATS server with JetStream, from Debian or built by Go, on loopback; it can be stopped, killed, frozen and started again."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.servers import debian
from tests.servers.places import TOOLS, ToolMissingError, exclusive
from tests.servers.processes import free_port, listens, running, until_ended

GO_MODULE = "github.com/nats-io/nats-server/v2@v2.12.4"
START_SECONDS_MAX = 20.0


@functools.cache
def program() -> Path:
    """The server's program: from PATH, from Debian's package, or built by Go."""
    found = _find()
    if found is None:
        with exclusive("nats-server"):
            found = _find() or _install()
    return found


def _find() -> Path | None:
    built = TOOLS / "go" / "bin" / "nats-server"
    on_path = shutil.which("nats-server", path=f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin")
    return Path(on_path) if on_path else built if built.exists() else None


def _install() -> Path:
    with contextlib.suppress(ToolMissingError):
        debian.install("nats-server", wanted="nats-server")
    if _find() is None and shutil.which("go"):
        subprocess.run(["go", "install", GO_MODULE], check=True, env=os.environ | {"GOBIN": str(TOOLS / "go" / "bin")})
    found = _find()
    if found is None:
        raise ToolMissingError("nats-server is missing: apt-get install nats-server, or install Go")
    return found


class NatsServer:
    """One server on a fixed port with its files in `directory`."""

    def __init__(self, directory: Path, *, configuration: str = "") -> None:
        self.directory = directory
        self.port = free_port()
        self._configuration = configuration
        self._process: subprocess.Popen[bytes] | None = None
        self._running = ExitStack()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Starts it on the files that are there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.conf"
        file.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.directory / "jetstream"}" }}\n{self._configuration}\n'
        )
        self._process = self._running.enter_context(
            running(
                [program(), "-c", file],
                log=self.directory / "nats.log",
                ready=functools.partial(listens, self.port),
                seconds_max=START_SECONDS_MAX,
            )
        )

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
        shutil.rmtree(self.directory / "jetstream")

    def freeze(self) -> None:
        """SIGSTOP: it neither answers nor closes a connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def nats_server(directory: Path, *, configuration: str = "") -> Iterator[NatsServer]:
    """A fresh server for the length of the block."""
    server = NatsServer(directory, configuration=configuration)
    server.start()
    try:
        yield server
    finally:
        server.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, nats_server(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)) as started:
        print(started.url, flush=True)
        until_ended()
