"""The listening sockets of a server, one for each serving process. The first is opened before anything else, to detect a port in use."""

import contextlib
import errno
import resource
import select
import socket
import sys
from collections.abc import Sequence

from .exit_codes import CommandFailed, ExitCode

BACKLOG_CONNECTIONS_MAX = 1_024


DESCRIPTORS_MAX = 65_536
"""How many files a serving process asks to be allowed to open; some systems permit a billion, and tables of that size."""


def permit_descriptors() -> None:
    """Raises the soft limit on open files to the hard one, up to DESCRIPTORS_MAX: most systems start processes with 1,024, or fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a lower bound of their own, which they do not tell.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int, named: str = "--port") -> socket.socket:
    """A TCP socket bound to the first address `host` stands for; port 0 takes a free one. Raises CommandFailed if it is taken.

    named -- the option or setting by which another port is chosen.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise CommandFailed(ExitCode.USAGE, f"host {host!r} cannot be resolved: {error.strerror}") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG_CONNECTIONS_MAX)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} on {host} is in use by another process; stop it, or choose another port with {named}"
            raise CommandFailed(ExitCode.BUSY, message) from None
        raise CommandFailed(ExitCode.USAGE, f"Cannot listen on {host}:{port}: {error.strerror}") from None
    opened.setblocking(False)
    return opened


def check_metrics_ports(host: str, first: int, workers: int) -> None:
    """Each worker's metrics have a port of their own, from `first` on. Raises CommandFailed if one is taken."""
    for port in range(first, first + workers if first else 1):
        listen(host, port, "ICECORE_METRICS_PORT").close()


def spread(opened: socket.socket, count: int) -> list[socket.socket]:
    """`count` listening sockets at the address of `opened`, the first of them: the kernel deals connections out among them.

    Of one socket that several processes wait on, whoever wakes first takes all there are, and that is mostly the same one.
    Elsewhere than on Linux the one socket is all there is.
    """
    if sys.platform != "linux":
        return [opened]
    # After the first was bound without it, so that a port that is taken is still found to be.
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sockets = [opened]
    for _ in range(count - 1):
        another = socket.socket(opened.family, opened.type, opened.proto)
        sockets.append(another)
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        another.bind(opened.getsockname())
        another.listen(BACKLOG_CONNECTIONS_MAX)
        another.setblocking(False)
    return sockets


class Unattended:
    """Finds, among the listening sockets of other workers, those at which connections wait and nobody takes them.

    One that is seen waiting for the first time may have come just now, and is its own worker's: of many that come at once, who looks by
    chance would else get most.
    """

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = {opened.fileno(): opened for opened in sockets}
        self._poll = select.poll()
        for opened in sockets:
            self._poll.register(opened, select.POLLIN)
        self._waited: set[int] = set()

    def look(self) -> list[socket.socket]:
        """The sockets at which somebody waited the last time too."""
        waiting = {descriptor for descriptor, _ in self._poll.poll(0)}
        unattended, self._waited = waiting & self._waited, waiting
        return [self._sockets[descriptor] for descriptor in unattended]


def url_of(opened: socket.socket) -> str:
    """The address a client on this machine connects to."""
    host, port = opened.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - asked about, not bound to
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
