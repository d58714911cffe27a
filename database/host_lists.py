"""URLs with a list of hosts: the primary that was reached last is tried first.

A machine that drops packets would otherwise delay each connection by the whole timeout, and the watchdog's probe would never get past it.
"""

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_WRITABLE = ("read-write", "primary")
"""The values of `target_session_attrs` with which a connection reaches the primary, wherever it is in the list."""
_LISTS = ("host", "hostaddr", "port")

_last_primary: dict[tuple[str, ...], int] = {}
"""By the lists of a URL, the index of the host."""


def host_count(dsn: str) -> int:
    """The number of hosts in the list of `dsn`."""
    return len(_hosts(conninfo_to_dict(dsn)))


def primary_first(dsn: str) -> str:
    """`dsn` with its hosts rotated, so that the one that was reached last comes first."""
    given = conninfo_to_dict(dsn)
    first = _last_primary.get(_key(given), 0)
    lists = {name: str(given[name]).split(",") for name in _LISTS if given.get(name)}
    # A single port is that of all hosts.
    rotated = {name: ",".join([*each[first:], *each[:first]]) for name, each in lists.items() if len(each) > 1}
    return make_conninfo(dsn, **rotated) if first else dsn


def remember_primary(dsn: str, connection: AsyncConnection[Any]) -> None:
    """Remembers which host of `dsn` this new connection has reached, if the URL asks for a primary."""
    given = conninfo_to_dict(dsn)
    hosts = _hosts(given)
    if len(hosts) == 1 or given.get("target_session_attrs") not in _WRITABLE:
        return
    ports = str(given.get("port") or "5432").split(",")
    addresses = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    reached = (connection.info.host if given.get("host") else connection.info.hostaddr, str(connection.info.port))
    if reached in addresses:
        _last_primary[_key(given)] = addresses.index(reached)


def _hosts(given: Mapping[str, Any]) -> list[str]:
    return str(given.get("host") or given.get("hostaddr") or "").split(",")


def _key(given: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(given.get(name) or "") for name in _LISTS)
