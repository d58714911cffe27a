"""Whether warehouses may use the server's own identity. By default they may not."""

from dataclasses import dataclass

from .cloud_profiles import S3Profile
from .credentials import AWS_SYSTEM_IDENTITY, AZURE_SYSTEM_IDENTITY, GCP_SYSTEM_IDENTITY, StorageCredential
from .storage_profile import StorageProfile

_ENABLE = {
    AWS_SYSTEM_IDENTITY: "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS",
    GCP_SYSTEM_IDENTITY: "ICECORE_ENABLE_GCP_SYSTEM_CREDENTIALS",
    AZURE_SYSTEM_IDENTITY: "ICECORE_ENABLE_AZURE_SYSTEM_CREDENTIALS",
}
_DIRECT = "ICECORE_S3_ENABLE_DIRECT_SYSTEM_CREDENTIALS"
_EXTERNAL_ID = "ICECORE_S3_REQUIRE_EXTERNAL_ID_FOR_SYSTEM_CREDENTIALS"


@dataclass(frozen=True, slots=True)
class SystemCredentials:
    """The operator's rules, with Lakekeeper's defaults.

    aws, gcp, azure -- the cloud's credential type, such as `aws-system-identity`, may be used. s3_direct -- that of AWS also without a role
    to assume. s3_external_id -- a role needs an external id, so that whoever creates a warehouse cannot use a role that trusts the server
    for somebody else.
    """

    aws: bool = False
    s3_direct: bool = False
    s3_external_id: bool = True
    gcp: bool = False
    azure: bool = False

    def refusal(self, profile: StorageProfile, credential: StorageCredential | None) -> str | None:
        """Why the profile cannot be used with the credential; None if it can, or does not use the server's identity."""
        if credential is None or credential.credential_type not in _ENABLE:
            return None
        enabled = {AWS_SYSTEM_IDENTITY: self.aws, GCP_SYSTEM_IDENTITY: self.gcp, AZURE_SYSTEM_IDENTITY: self.azure}
        if not enabled[credential.credential_type]:
            return f"{credential.credential_type} is disabled: {_ENABLE[credential.credential_type]} enables it"
        if credential.credential_type != AWS_SYSTEM_IDENTITY or not isinstance(profile, S3Profile):
            return None
        if profile.assume_role_arn is None:
            return (
                None if self.s3_direct else f"{AWS_SYSTEM_IDENTITY} needs assume-role-arn in the storage-profile, unless {_DIRECT} is set"
            )
        if self.s3_external_id and credential.fields.get("external-id") is None:
            return f"{AWS_SYSTEM_IDENTITY} needs external-id to assume a role, unless {_EXTERNAL_ID} is false"
        return None
