"""The server's own Google Cloud identity. It needs google-auth and requests (the extra `gcp`)."""

from datetime import UTC
from typing import Any

import google.auth
import google.auth.exceptions
import google.auth.transport.requests

from .renewed_credentials import AccessToken, NoCredentials, RenewedCredentials, renewal_time

CLOUD = "Google Cloud"
REQUEST_SECONDS_MAX = 3
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class GcpIdentity:
    """The identity of this process, where google-auth finds it: application default credentials, or the metadata server."""

    def __init__(self) -> None:
        self.token: RenewedCredentials[AccessToken] = RenewedCredentials(CLOUD, self._fetch)

    def _fetch(self) -> AccessToken:
        request = _BoundedRequest()
        try:
            # Found again for each token: an abandoned fetch may still use the one before.
            found: Any
            found, _ = google.auth.default(scopes=[SCOPE], request=request)
            found.refresh(request)
        except google.auth.exceptions.GoogleAuthError as error:
            raise NoCredentials(_failure_reason(error)) from None
        finally:
            request.session.close()
        # google-auth has times in UTC without a time zone.
        expires_at = found.expiry.replace(tzinfo=UTC).timestamp()
        return AccessToken(found.token, renewal_time(expires_at), expires_at)


class _BoundedRequest(google.auth.transport.requests.Request):
    """google-auth waits two minutes for most responses."""

    def __call__(self, url: str, method: str = "GET", body: Any = None, headers: Any = None, timeout: float = 120, **options: Any) -> Any:
        return super().__call__(url, method, body, headers, min(timeout, REQUEST_SECONDS_MAX), **options)  # type: ignore[no-untyped-call]


def _failure_reason(error: google.auth.exceptions.GoogleAuthError) -> str:
    """In our own words: the client's text may contain what a server sent."""
    match error:
        case google.auth.exceptions.DefaultCredentialsError():
            return "the server has no Google Cloud identity, its metadata service did not respond, or its credentials file is not valid"
        case google.auth.exceptions.TransportError():
            return "the server's Google Cloud identity could not be read from its metadata or token service"
        case google.auth.exceptions.RefreshError():
            if isinstance(error.__cause__, google.auth.exceptions.TransportError):
                return _failure_reason(error.__cause__)
            return "Google Cloud refuses the server's identity"
    return f"the server's Google Cloud identity was not found: {type(error).__name__}"
