"""The listening sockets of a server, one for each serving process. The first is opened before anything else, to detect a port in use."""

import contextlib
import errno
import resource
import select
import socket
import sys
from collections.abc import Iterator, Sequence

from .api.origins import is_loopback
from .exit_codes import CommandFailed, ExitCode
from .settings import Settings, SettingsError

BACKLOG_CONNECTIONS_MAX = 1_024


DESCRIPTORS_MAX = 65_536
"""The largest limit on open files that is requested. Some systems permit a billion, and some programs allocate tables of that size."""


def check_address(settings: Settings) -> None:
    """Refuses an address that other machines can reach, because there is no authentication, unless `insecure` is set."""
    unnamed = not settings.allowed_hosts and settings.public_url is None
    if not settings.insecure and not is_loopback(settings.host):
        names = ", and the names by which clients call the server in --allowed-hosts (ICECORE_ALLOWED_HOSTS)" if unnamed else ""
        raise SettingsError(
            f"host {settings.host} is not a loopback address, and there is no authentication: everyone who can reach it could read, "
            f"change and drop every table. Bind to 127.0.0.1, or set --insecure (ICECORE_INSECURE=true){names}, "
            "if the network keeps others out"
        )
    if not is_loopback(settings.host) and unnamed:
        raise SettingsError(
            f"host {settings.host} is not a loopback address: --insecure needs the names by which clients call the server, "
            "in --allowed-hosts (ICECORE_ALLOWED_HOSTS), separated by commas; requests for other names are refused, "
            "because web pages send them (DNS rebinding)"
        )


def permit_descriptors() -> None:
    """Raises the soft limit on open files to the hard one, at most DESCRIPTORS_MAX. Most systems start processes with 1,024 or fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a lower limit that cannot be read.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int, named: str = "--port (ICECORE_PORT)") -> socket.socket:
    """A TCP socket that listens at the first address of `host`, as `bound` returns it."""
    return bound(host, port, named, backlog=BACKLOG_CONNECTIONS_MAX)


def bound(host: str, port: int, named: str = "--port (ICECORE_PORT)", *, backlog: int | None = None) -> socket.socket:
    """A TCP socket bound to the first address of `host`. Port 0 picks a free port. Raises CommandFailed if the port is in use.

    named -- the option or setting for another port. backlog -- also listen, with a queue of this length.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise CommandFailed(ExitCode.USAGE, f"host {host!r} cannot be resolved: {error.strerror}") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        if backlog is not None:
            opened.listen(backlog)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} on {host} is in use by another process; stop it, or choose another port with {named}"
            raise CommandFailed(ExitCode.BUSY, message) from None
        raise CommandFailed(ExitCode.USAGE, f"Cannot listen on {host}:{port}: {error.strerror}") from None
    opened.setblocking(False)
    return opened


@contextlib.contextmanager
def listen_for_metrics(host: str, port: int | None) -> Iterator[socket.socket | None]:
    """The socket of the metrics port while the block runs; None without a port. Raises CommandFailed if it is taken."""
    if port is None:
        yield None
        return
    with contextlib.closing(listen(host, port, "ICECORE_METRICS_PORT")) as opened:
        yield opened


def spread(opened: socket.socket, count: int) -> list[socket.socket]:
    """`count` listening sockets on the address of `opened`, which is the first. The kernel distributes connections among them.

    If several processes accept from one socket, mostly the same process accepts all connections. On other systems than Linux there is only
    the one socket.
    """
    if sys.platform != "linux":
        return [opened]
    # SO_REUSEPORT is set after the first bind, so that a port in use is detected.
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


class UnacceptedConnections:
    """Finds listening sockets of other workers with connections that are not accepted.

    A socket must be seen with waiting connections twice. After the first time they may have just arrived, and their own worker will accept
    them.
    """

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = {opened.fileno(): opened for opened in sockets}
        self._poll = select.poll()
        for opened in sockets:
            self._poll.register(opened, select.POLLIN)
        self._waited: set[int] = set()

    def check(self) -> list[socket.socket]:
        """The sockets that had waiting connections also in the previous call."""
        waiting = {descriptor for descriptor, _ in self._poll.poll(0)}
        unaccepted, self._waited = waiting & self._waited, waiting
        return [self._sockets[descriptor] for descriptor in unaccepted]


def url_of(opened: socket.socket) -> str:
    """The URL for clients on this machine."""
    return local_url(*opened.getsockname()[:2])


def local_url(host: str, port: int) -> str:
    """The URL for clients on this machine of a server that listens at a host, such as `0.0.0.0` or `::1`."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - asked about, not bound to
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
