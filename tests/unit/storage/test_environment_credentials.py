"""Credentials in the environment: removed at the start, and put back for the identities that the settings permit."""

import os

import pytest
from botocore.credentials import AssumeRoleWithWebIdentityProvider, ContainerProvider, EnvProvider

from icecore.storage import environment_credentials
from icecore.storage.environment_credentials import remove_environment_credentials, restore_identities

AWS = {
    EnvProvider.ACCESS_KEY,
    EnvProvider.SECRET_KEY,
    *EnvProvider.TOKENS[-1:],
    ContainerProvider.ENV_VAR,
    ContainerProvider.ENV_VAR_FULL,
    ContainerProvider.ENV_VAR_AUTH_TOKEN,
    ContainerProvider.ENV_VAR_AUTH_TOKEN_FILE,
    *AssumeRoleWithWebIdentityProvider._CONFIG_TO_ENV_VAR.values(),
}
GCP = {"GOOGLE_APPLICATION_CREDENTIALS"}
AZURE = {"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT"}
OTHERS = {"AWS_ENDPOINT_URL_S3", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY"}
"""Which a store's client would read for what a warehouse leaves out."""


@pytest.mark.parametrize(("cloud", "names"), [("aws", AWS), ("gcp", GCP), ("azure", AZURE), ("", set())])
def test_the_variables_of_a_permitted_identity_alone_are_put_back(monkeypatch: pytest.MonkeyPatch, cloud: str, names: set[str]) -> None:
    """Those that its client library reads."""
    for name in [name for name in os.environ if name.startswith(environment_credentials._PREFIXES)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(environment_credentials, "_removed", {})
    for name in AWS | GCP | AZURE | OTHERS:
        monkeypatch.setenv(name, "x")
    remove_environment_credentials()
    restore_identities(**{each: each == cloud for each in ("aws", "gcp", "azure")})
    assert names == {name for name in os.environ if name.startswith(environment_credentials._PREFIXES)}
