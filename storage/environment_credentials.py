"""Removes credentials from the process's environment, because they must not be used for warehouses."""

import os

_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "MSI_", "IDENTITY_")
_AWS_IDENTITY_NAMES = frozenset(
    {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CREDENTIAL_EXPIRATION",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
        "AWS_EC2_METADATA_V1_DISABLED", "AWS_METADATA_SERVICE_TIMEOUT", "AWS_METADATA_SERVICE_NUM_ATTEMPTS",
        "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_STS", "AWS_STS_REGIONAL_ENDPOINTS",
        "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
    }
)  # fmt: skip
"""What botocore reads to find an identity. The switches of requests to stores are not among them."""
_GCP_IDENTITY_NAMES = frozenset({"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"})
"""What google-auth reads. The project is not used, but google-auth would look it up if it were not given."""
_AZURE_IDENTITY_NAMES = frozenset(
    {
        "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "AZURE_POD_IDENTITY_AUTHORITY_HOST",
        "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "IDENTITY_SERVER_THUMBPRINT", "MSI_ENDPOINT", "MSI_SECRET",
    }
)  # fmt: skip
"""What azure-identity reads to find a managed or workload identity. The secret of a principal is not among them."""
_removed: dict[str, str] = {}


def remove_environment_credentials() -> None:
    """Removes the clouds' variables from this process's environment. Call it at the start of the program, before any thread.

    obstore reads them for every option that is not given. Stores are opened with all options given (for S3, without exception), but some
    Azure options cannot be set to "none".
    """
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        value = os.environ.pop(name)
        if name in _AWS_IDENTITY_NAMES | _GCP_IDENTITY_NAMES | _AZURE_IDENTITY_NAMES:
            _removed[name] = value


def restore_identities(*, aws: bool, gcp: bool, azure: bool) -> None:
    """Puts back the variables of the identities that the settings permit warehouses to use, and no others."""
    for is_permitted, names in ((aws, _AWS_IDENTITY_NAMES), (gcp, _GCP_IDENTITY_NAMES), (azure, _AZURE_IDENTITY_NAMES)):
        if is_permitted:
            os.environ.update({name: value for name, value in _removed.items() if name in names})


def environment_without_credentials() -> dict[str, str]:
    """The environment for a process that needs no cloud."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_PREFIXES)}
