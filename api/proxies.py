"""The address of a client behind proxies that the operator trusts.

It is used only in log records. The server writes no URL whose scheme, host or path a proxy could change, so it reads no other headers of
proxies.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal

from aiohttp import web

from .origins import host_name

ForwardedHeader = Literal["X-Forwarded-For", "Forwarded"]

PROXIES_MAX = 20
"""How many addresses are read, from the end of the header. Earlier ones may have been made up by the client."""
_LENGTH_MAX = 2_048
"""Characters of the header that are read."""

# A pair of RFC 7239 up to its end. Values may also be unquoted addresses with a port.
_PAIR = re.compile(
    r"""\s*(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s;,"]+))\s*(?P<end>[;,]|$)""", re.DOTALL
)
_QUOTED_CHARACTER = re.compile(r"\\(.)", re.DOTALL)


class TrustedProxies:
    """Reads the header of trusted proxies, and of no one else.

    networks -- addresses and networks of the proxies. header -- the header that they set. A proxy lets the other one pass as the client
        sent it.
    """

    def __init__(self, networks: Iterable[str] = (), header: ForwardedHeader = "X-Forwarded-For") -> None:
        self._networks: Final = [ipaddress.ip_network(each) for each in networks]
        self._header: Final = header

    def client(self, request: web.BaseRequest) -> str | None:
        """The last address in the chain of proxies that is not a trusted proxy's; without trusted proxies, the connection's.

        A trusted proxy counts as the client if what it reports is not an address.
        """
        address = request.remote
        if not self._networks or not self._trusts(address):
            return address
        for text in islice(self._forwarded(request), PROXIES_MAX):
            before = _address(text)
            if before is None:
                break
            address = str(before)
            if not self._trusts(address):
                break
        return address

    def _trusts(self, text: str | None) -> bool:
        # A connection over IPv6 may have a zone.
        address = None if text is None else _address(text.partition("%")[0])
        return address is not None and any(address in network for network in self._networks)

    def _forwarded(self, request: web.BaseRequest) -> Iterator[str]:
        """The clients that the header names, last first."""
        left = _LENGTH_MAX
        for line in reversed(request.headers.getall(self._header, [])):
            # Only whole elements.
            text = line if len(line) <= left else line[-left:].partition(",")[2]
            yield from reversed(_clients(text) if self._header == "Forwarded" else text.split(","))
            left -= len(line)
            if left <= 0:
                return


def _clients(text: str) -> list[str]:
    """The `for` of each element of `Forwarded`; empty if it has none or is malformed."""
    found, position = [""], 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            position = text.find(",", position) + 1
            if position == 0:
                break
            found.append("")
            continue
        if pair["name"].lower() == "for":
            found[-1] = pair["plain"] or _QUOTED_CHARACTER.sub(r"\1", pair["quoted"])
        if pair["end"] == ",":
            found.append("")
        position = pair.end()
    return found


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`; None for anything else."""
    # The zone of an IPv6 address may be any text.
    if "%" in text:
        return None
    for written in (text.strip(), host_name(text.strip())):
        try:
            address = ipaddress.ip_address(written or "")
        except ValueError:
            continue
        # A socket that listens on IPv6 shows IPv4 addresses in this form.
        return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
    return None


TRUSTED_PROXIES: web.AppKey[TrustedProxies] = web.AppKey("trusted_proxies", TrustedProxies)
