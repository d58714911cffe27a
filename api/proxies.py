"""The address of a client behind proxies that the operator trusts.

Only the log has it. The server writes no URL with a scheme, host or path that a proxy could change, so it reads no other header of proxies.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from aiohttp import hdrs, web

from .origins import host_name

ForwardedHeader = Literal["X-Forwarded-For", "Forwarded"]


class TrustedProxies:
    """Reads the header of trusted proxies, and of no one else.

    networks -- addresses and networks of the proxies. header -- the header that they set. A proxy lets the other one pass as the client
        sent it.
    """

    def __init__(self, networks: Iterable[str] = (), header: ForwardedHeader = "X-Forwarded-For") -> None:
        self._networks: Final = [ipaddress.ip_network(each) for each in networks]
        self._header: Final = header

    def client(self, request: web.BaseRequest) -> str | None:
        """The last address on the way of the request that is not a trusted proxy's; without trusted proxies, that of the connection.

        A trusted proxy counts as the client if what it says is no address.
        """
        address = request.remote
        if not self._networks or not self._trusts(address):
            return address
        for text in reversed(self._forwarded(request)):
            before = _address(text)
            if before is None:
                break
            address = str(before)
            if not self._trusts(address):
                break
        return address

    def _trusts(self, text: str | None) -> bool:
        address = None if text is None else _address(text)
        return address is not None and any(address in network for network in self._networks)

    def _forwarded(self, request: web.BaseRequest) -> Sequence[str]:
        if self._header == "Forwarded":
            return [element.get("for", "") for element in request.forwarded]
        return ",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, [])).split(",")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`; None for anything else."""
    for written in (text.strip(), host_name(text.strip())):
        try:
            address = ipaddress.ip_address(written or "")
        except ValueError:
            continue
        # A socket that listens on IPv6 shows IPv4 addresses in this form.
        return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
    return None


TRUSTED_PROXIES: web.AppKey[TrustedProxies] = web.AppKey("trusted_proxies", TrustedProxies)
