"""The server's own identities in the clouds, for warehouses that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .system_credentials import SystemCredentials

if TYPE_CHECKING:
    from .aws_identity import AwsIdentity
    from .azure_identity import AzureIdentity
    from .gcp_identity import GcpIdentity


@dataclass(frozen=True, slots=True)
class SystemIdentities:
    """None where the settings do not permit it."""

    aws: AwsIdentity | None = None
    gcp: GcpIdentity | None = None
    azure: AzureIdentity | None = None

    @classmethod
    def permitted(cls, system: SystemCredentials) -> SystemIdentities:
        """Nothing is requested yet. The client library of each permitted cloud must be installed."""
        return cls(
            aws=_aws_identity() if system.aws else None,
            gcp=_gcp_identity() if system.gcp else None,
            azure=_azure_identity() if system.azure else None,
        )


# The client libraries are optional.


def _aws_identity() -> AwsIdentity:
    from .aws_identity import AwsIdentity

    return AwsIdentity()


def _gcp_identity() -> GcpIdentity:
    from .gcp_identity import GcpIdentity

    return GcpIdentity()


def _azure_identity() -> AzureIdentity:
    from .azure_identity import AzureIdentity

    return AzureIdentity()
