"""A NATS server with JetStream, from Debian or built with Go, on loopback; it can be stopped, killed, frozen and restarted."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.servers import debian
from tests.servers.breakable import BreakableServer
from tests.servers.paths import TOOLS, ToolMissingError, exclusive
from tests.servers.processes import listens, until_ended

GO_MODULE = "github.com/nats-io/nats-server/v2@v2.12.4"
START_SECONDS_MAX = 20.0


@functools.cache
def program() -> Path:
    """The server's program: from PATH, from Debian's package, or built with Go."""
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


class NatsServer(BreakableServer):
    """One server. `configuration` is added to its own, in NATS's syntax."""

    def __init__(self, directory: Path, *, configuration: str = "") -> None:
        super().__init__(directory, "jetstream")
        self._configuration = configuration

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it with the existing files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.conf"
        file.write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self._stored}" }}\n{self._configuration}\n')
        ready = functools.partial(listens, self.port)
        self._launch([program(), "-c", file], log="nats.log", ready=ready, seconds_max=START_SECONDS_MAX)


@contextlib.contextmanager
def nats_server(directory: Path, *, configuration: str = "") -> Iterator[NatsServer]:
    """A new server for the length of the block."""
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
