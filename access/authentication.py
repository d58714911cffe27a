"""Authentication: the principal of a request, from its headers."""

from collections.abc import Mapping
from typing import Protocol

from .request_context import ANONYMOUS, Principal


class Authenticator(Protocol):
    """Called once for every request that names an operation, after the checks of host and origin and before the body is read.

    Not for operations without authentication (`Operation.public`).
    """

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """The principal. Raises NotAuthorized if the headers do not prove one. Messages and logs must not contain a header's value."""


class AnonymousAuthenticator:
    """Every principal is anonymous, because there is no authentication yet."""

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """ANONYMOUS, whatever the headers are."""
        return ANONYMOUS
