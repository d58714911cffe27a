"""The server's own Azure identity. It needs azure-identity (the extra `azure`)."""

import os

import azure.core.exceptions
import azure.identity

from .renewed_credentials import AccessToken, NoCredentials, RenewedCredentials, renewal_time

CLOUD = "Azure"
CONNECT_SECONDS_MAX = 2
READ_SECONDS_MAX = 3
RETRIES_MAX = 1
SCOPE = "https://storage.azure.com/.default"


class AzureIdentity:
    """The identity of this process, where azure-identity finds it: a workload identity, or a managed identity of any hosting service."""

    def __init__(self) -> None:
        self.token: RenewedCredentials[AccessToken] = RenewedCredentials(CLOUD, self._fetch)

    def _fetch(self) -> AccessToken:
        try:
            # Found again for each token: an abandoned fetch may still use the one before.
            with azure.identity.ManagedIdentityCredential(
                client_id=os.environ.get("AZURE_CLIENT_ID"),
                connection_timeout=CONNECT_SECONDS_MAX,
                read_timeout=READ_SECONDS_MAX,
                retry_total=RETRIES_MAX,
            ) as identity:
                token = identity.get_token(SCOPE)
        except azure.core.exceptions.AzureError as error:
            raise NoCredentials(_failure_reason(error)) from None
        return AccessToken(token.token, renewal_time(token.expires_on), token.expires_on)


def _failure_reason(error: azure.core.exceptions.AzureError) -> str:
    """In our own words: the client's text may contain what a server sent."""
    match error:
        case azure.identity.CredentialUnavailableError():
            return "the server has no Azure identity, or its metadata service did not respond"
        case azure.core.exceptions.ServiceRequestError() | azure.core.exceptions.ServiceResponseError():
            return "the server's Azure identity could not be read from its metadata or token service"
        case azure.core.exceptions.ClientAuthenticationError():
            return "Azure refuses the server's identity"
    return f"the server's Azure identity was not found: {type(error).__name__}"
