"""Options of Flink's connector in the properties of a new table."""

import pytest

from icecore.security.flink_options import without_connector_options
from icecore.security.property_rules import is_credential_property

REQUIRED = {"catalog-name": "icecore", "catalog-type": "rest"}
OPTIONS = (
    "app-id", "app-name", "audience", "base-namespace", "cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms",
    "catalog-database", "catalog-impl", "catalog-name", "catalog-table", "catalog-type", "client-pool-cache-keys", "clients", "connector",
    "credential", "default-database", "dynamic-record-generator-impl", "encryption.kms-impl", "encryption.kms-type", "hadoop-conf-dir",
    "hive-conf-dir", "io-impl", "lock-impl", "metrics-reporter-impl", "namespace-separator", "oauth2-server-uri", "prefix",
    "property-version", "resource", "rest-metrics-reporting-enabled", "rest-page-size", "rest-scan-plan-id", "scan-planning-mode", "scope",
    "snapshot-loading-mode", "src-catalog", "token", "token-exchange-enabled", "token-expires-in-ms", "token-refresh-enabled", "type",
    "unique-table-location", "uri", "use-dynamic-iceberg-sink", "user", "view-endpoints-supported", "warehouse",
)  # fmt: skip
PREFIXES = (
    "adls.", "auth.", "azure.", "client.", "dynamodb.", "fs.", "gcs.", "glue.", "hadoop.", "header.", "http-client.", "io.manifest.",
    "kms.", "lakeformation.", "lock.", "oss.", "rest-scan-planning.", "rest-table-cache.", "rest.", "s3.", "signer.",
    "table-default.", "table-override.", "view-default.", "view-override.",
)  # fmt: skip


def test_properties_of_the_table_stay() -> None:
    own = {"format-version": "2", "write.format.default": "orc", "comment": "uri", "owner": "a", "write.metadata.path": "s3://b/m"}
    assert own == without_connector_options({**REQUIRED, **own})


@pytest.mark.parametrize("name", [*OPTIONS, *(f"{prefix}any" for prefix in PREFIXES)])
def test_options_go_with_both_that_the_connector_requires(name: str) -> None:
    assert {} == without_connector_options({**REQUIRED, name: "x"})


@pytest.mark.parametrize("required", REQUIRED)
def test_options_stay_where_the_connector_would_have_set_another(required: str) -> None:
    """Then another client sent them."""
    options = dict.fromkeys((required, *OPTIONS, *(f"{prefix}any" for prefix in PREFIXES)), "x")
    for other in {"catalog-name"} if required == "catalog-type" else {"catalog-type", "catalog-impl"}:
        del options[other]
    assert options == without_connector_options(options)


def test_a_table_with_the_class_of_its_catalog_is_a_connector_table() -> None:
    """The connector takes `catalog-impl` instead of `catalog-type`."""
    options = {"catalog-name": "icecore", "catalog-impl": "org.apache.iceberg.rest.RESTCatalog", "token": "x"}
    assert {} == without_connector_options(options)
    del options["catalog-name"]
    assert options == without_connector_options(options)


@pytest.mark.parametrize("name", ["my.password", "secret", "s3x.access-key-id", "URI", "aws_secret_access_key"])
def test_other_credentials_stay_and_are_refused(name: str) -> None:
    assert name in without_connector_options({**REQUIRED, name: "x"})
    assert is_credential_property(name)
