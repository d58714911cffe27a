"""Options of Flink's connector in the properties of a new table."""

import pytest

from icecore.security.flink_options import without_connector_options
from icecore.security.property_rules import is_credential_property

REQUIRED = {"catalog-name": "icecore", "catalog-type": "rest"}


def test_properties_of_the_table_stay() -> None:
    own = {"format-version": "2", "write.format.default": "orc", "comment": "uri", "owner": "a", "write.metadata.path": "s3://b/m"}
    assert own == without_connector_options({**REQUIRED, **own})


@pytest.mark.parametrize(
    "name",
    ["uri", "warehouse", "io-impl", "credential", "token", "s3.endpoint", "s3.secret-access-key", "header.X-Key", "adls.sas-token.a",
     "gcs.oauth2.token", "client.credentials-provider", "rest.auth.basic.password"],
)  # fmt: skip
def test_options_go_with_both_that_the_connector_requires(name: str) -> None:
    assert {} == without_connector_options({**REQUIRED, name: "x"})
    for required in REQUIRED:
        assert {required, name} == without_connector_options({required: "x", name: "x"}).keys()


@pytest.mark.parametrize("name", ["my.password", "secret", "s3x.access-key-id", "URI", "aws_secret_access_key"])
def test_other_credentials_stay_and_are_refused(name: str) -> None:
    assert name in without_connector_options({**REQUIRED, name: "x"})
    assert is_credential_property(name)
