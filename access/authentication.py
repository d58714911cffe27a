"""Authentication: the principal of a request, from its headers."""

from collections.abc import Mapping
from typing import Protocol

from .request_context import ANONYMOUS, Principal


class Authenticator(Protocol):
    """Asked once for every request, before anything else is done for it; not for those that are open to everybody (`Operation.open`)."""

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Raises NotAuthorized where the headers do not prove who asks. No message and no log may hold a header's value."""


class AuthenticateNobody:
    """Whoever asks is anonymous: there is no authentication yet."""

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """ANONYMOUS, whatever the headers are."""
        return ANONYMOUS
