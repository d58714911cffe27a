"""Properties that carry credentials, or lead a client elsewhere, do not enter the log."""

import time

import pytest

from domain.errors import BadRequest
from security.property_rules import carries_credential, refuse_credential_properties

REFUSED = [
    "token",
    "credential",
    "credentials",
    "secret",
    "password",
    "client-secret",
    "client_secret",
    "oauth2.client-secret",
    "uri",
    "oauth2-server-uri",
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "s3.sse.key",
    "client.secret-access-key",
    "glue.secret-access-key",
    "rest.access-key-id",
    "rest.secret-access-key",
    "rest.session-token",
    "client.session-token",
    "adls.sas-token",
    "adls.sas-token.account",
    "adls.sas-token.account.dfs.core.windows.net",
    "adls.sas-token-expires-at-ms.account",
    "adls.auth.shared-key.account.key",
    "adls.auth.shared-key.account.name",
    "adls.account-key",
    "adls.connection-string",
    "adls.connection-string.account",
    "adls.client-secret",
    "adls.account-key.account",
    "adls.token",
    "gcs.oauth2.token",
    "gcs.credentials-json",
    "gcs.service-account-key",
    "gcs.encryption-key",
    "gcs.decryption-key",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.azure.account.key.account.dfs.core.windows.net",
    "fs.azure.sas.container.account",
    "fs.azure.account.oauth2.client.secret",
    "header.authorization",
    "header.Authorization",
    "header.cookie",
    "header.x-api-key",
    "catalog.token",
    "my.credential",
    "my.credentials",
    "spark.sql.catalog.x.token",
    "spark.sql.catalog.x.credential",
    "jdbc.password",
    "my_password",
    "db-password",
    "my.api-key",
    "my-api-key.v2",
    "aws_secret_access_key",
    "AWS_SECRET_ACCESS_KEY",
    "aws_session_token",
    "access_token",
    "refresh-token",
    "private_key",
    "my.private-key",
    "passphrase",
    "S3.Secret-Access-Key",
    "TOKEN",
    "s3.endpoint",
    "adls.endpoint",
    "gcs.service.host",
    "rest.endpoint",
    "client.endpoint",
    "glue.endpoint",
    "signer.uri",
    "signer.endpoint",
    "s3.signer.uri",
    "s3.signer.endpoint",
    "s3.signer",
    "client.refresh-credentials-endpoint",
    "s3.refresh-credentials-endpoint",
    "adls.refresh-credentials-endpoint",
    "gcs.oauth2.refresh-credentials-endpoint",
    "credentials.refresh-endpoint",
    "refresh-credentials-endpoint",
    "io-impl",
    "catalog-impl",
    "client.factory",
    "s3.client-factory-impl",
    "client.credentials-provider",
    "rest.client-impl",
]

KEPT = [
    "write.format.default",
    "write.parquet.compression-codec",
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.object-storage.enabled",
    "write.metadata.compression-codec",
    "write.metadata.delete-after-commit.enabled",
    "write.distribution-mode",
    "write.location-provider.impl",
    "encryption.key-id",
    "encryption.data-key-length",
    "commit.retry.num-retries",
    "commit.manifest.min-count-to-merge",
    "history.expire.max-snapshot-age-ms",
    "read.split.target-size",
    "format-version",
    "owner",
    "comment",
    "location",
    "schema.name-mapping.default",
    "gc.enabled",
    "engine.hive.enabled",
    "table.owner",
    "description",
    "token-count",
    "tokens",
    "tokenizer",
    "secretary",
    "credentialed",
    "keyboard",
    "primary-key",
    "sort-key",
    "partition.key",
    "business_key",
    "write.upsert.key",
    "tag.secret-level",
    "created-at",
    "uri-scheme",
    "my.uri",
    "endpoint",
    "connector",
    "transient_lastDdlTime",
    "trino.stored_schema",
    "spark.sql.sources.schema",
    "password-policy",
    "header",
    "headers",
    "s3.path-style-access",
    "s3.region",
    "client.region",
    "s3.remote-signing-enabled",
    "app-id",
    "a",
    "é",
    "🙂",
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_credential_is_refused_by_its_name(name: str) -> None:
    """Among harmless ones as well; the refusal names the field and the key, never the value."""
    with pytest.raises(BadRequest) as refusal:
        refuse_credential_properties({"owner": "me", name: "canary-77"}, "properties")
    assert refusal.value.message.startswith("Invalid properties: ")
    assert name in refusal.value.message
    assert "canary-77" not in refusal.value.message


@pytest.mark.parametrize("name", KEPT)
def test_what_only_looks_alike_is_kept(name: str) -> None:
    """The negative control: words of tables, and words that merely contain a suspicious one."""
    refuse_credential_properties({name: "token"}, "properties")


def test_a_long_name_costs_nothing() -> None:
    """The patterns are linear: 64 KiB of the worst letters are judged in a few milliseconds."""
    for name in ("a." * 32_768, "secret." * 9_000, "s3." + "x." * 32_000, "_-." * 20_000 + "x", "sas-token" * 7_000):
        started = time.perf_counter()
        carries_credential(name)
        assert time.perf_counter() - started < 0.5


def test_a_long_name_is_cut_in_the_message() -> None:
    """A refusal does not repeat a body of megabytes."""
    with pytest.raises(BadRequest) as refusal:
        refuse_credential_properties(["x" * 10_000 + ".token"], "properties")
    assert len(refusal.value.message) < 500
