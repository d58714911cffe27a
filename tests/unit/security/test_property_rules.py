"""Properties that contain credentials or redirect clients are not written to the log."""

import time

import pytest

from icecore.domain.errors import BadRequest
from icecore.security.property_rules import (
    REGISTERED_PROPERTIES_MAX,
    check_registered_properties,
    is_credential_property,
    refuse_credential_properties,
)

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


ICEBERG_PROPERTIES = """
commit.manifest-merge.enabled commit.manifest.min-count-to-merge commit.manifest.target-size-bytes commit.retry.max-wait-ms
commit.retry.min-wait-ms commit.retry.num-retries commit.retry.total-timeout-ms commit.status-check.max-wait-ms
commit.status-check.min-wait-ms commit.status-check.num-retries commit.status-check.total-timeout-ms
compatibility.snapshot-id-inheritance.enabled current-schema current-snapshot-id current-snapshot-summary current-snapshot-timestamp-ms
default-partition-spec default-sort-order encryption.data-key-length encryption.key-id engine.hive.enabled engine.hive.lock-enabled
format-version gc.enabled history.expire.max-ref-age-ms history.expire.max-snapshot-age-ms history.expire.min-snapshots-to-keep
identifier-fields.rely read.data-planning-mode read.delete-planning-mode read.orc.vectorization.batch-size read.orc.vectorization.enabled
read.parquet.vectorization.batch-size read.parquet.vectorization.enabled read.split.adaptive-size.enabled read.split.metadata-target-size
read.split.open-file-cost read.split.planning-lookback read.split.target-size replace.drop-dialect.allowed schema.name-mapping.default
snapshot-count version.history.num-entries write.avro.compression-codec write.avro.compression-level write.data.path
write.delete.avro.compression-codec write.delete.avro.compression-level write.delete.distribution-mode write.delete.format.default
write.delete.granularity write.delete.isolation-level write.delete.mode write.delete.orc.block-size-bytes
write.delete.orc.compression-codec write.delete.orc.compression-strategy write.delete.orc.stripe-size-bytes
write.delete.orc.vectorized.batch-size write.delete.parquet.compression-codec write.delete.parquet.compression-level
write.delete.parquet.dict-size-bytes write.delete.parquet.page-row-limit write.delete.parquet.page-size-bytes
write.delete.parquet.page-version write.delete.parquet.row-group-check-max-record-count
write.delete.parquet.row-group-check-min-record-count write.delete.parquet.row-group-size-bytes write.delete.target-file-size-bytes
write.distribution-mode write.folder-storage.path write.format.default write.location-provider.impl write.manifest-lists.enabled
write.manifest.compression-codec write.manifest.compression-level write.merge.distribution-mode write.merge.isolation-level
write.merge.mode write.metadata.compression-codec write.metadata.delete-after-commit.enabled write.metadata.metrics.column.password
write.metadata.metrics.default write.metadata.metrics.max-inferred-column-defaults write.metadata.path
write.metadata.previous-versions-max write.object-storage.enabled write.object-storage.partitioned-paths write.object-storage.path
write.orc.block-size-bytes write.orc.bloom.filter.columns write.orc.bloom.filter.fpp write.orc.compression-codec
write.orc.compression-strategy write.orc.stripe-size-bytes write.orc.vectorized.batch-size
write.parquet.bloom-filter-enabled.column.password write.parquet.bloom-filter-fpp.column.password write.parquet.bloom-filter-max-bytes
write.parquet.bloom-filter-ndv.column.password write.parquet.compression-codec write.parquet.compression-level
write.parquet.dict-size-bytes write.parquet.page-row-limit write.parquet.page-size-bytes write.parquet.page-version
write.parquet.row-group-check-max-record-count write.parquet.row-group-check-min-record-count write.parquet.row-group-size-bytes
write.parquet.shred-variants write.parquet.stats-enabled.column.password write.parquet.variant-inference-buffer-size
write.spark.accept-any-schema write.spark.advisory-partition-size-bytes write.spark.auto-schema-evolution.enabled
write.spark.fanout.enabled write.summary.partition-limit write.target-file-size-bytes write.update.distribution-mode
write.update.isolation-level write.update.mode write.upsert.enabled write.wap.enabled
""".split()  # noqa: SIM905 -- a list of names is read easier as text
"""Every constant of TableProperties and ViewProperties of Iceberg 1.11.0. Prefixes of column names have the most suspicious name."""

ENGINES_PROPERTIES = """
EXTERNAL external.table.purge transient_lastDdlTime numFiles totalSize rawDataSize numRows COLUMN_STATS_ACCURATE bucketing_version
storage_handler metadata_location previous_metadata_location table_type iceberg.catalog uuid current-schema current-snapshot-id
default-partition-spec snapshot-count hive.lock.enabled iceberg.mr.table.identifier iceberg.mr.split.size iceberg.hive.lock-timeout-ms
hive.storage.handler EXTERNAL_TABLE spark.sql.sources.provider spark.sql.sources.schema.numParts spark.sql.sources.schema.part.0
spark.sql.statistics.totalSize spark.sql.create.version spark.app.id option.serialization.format option.path provider created_by
lastAccess connector catalog-name catalog-type catalog-database catalog-table flink.max-continuous-empty-commits flink.operator-id
flink.job-id trino.stored_schema trino_query_id presto_query_id presto_version trino.create-view-query trino_version sorted_by
partitioning object_store_layout_enabled orc_bloom_filter_columns parquet_bloom_filter_columns extra_properties dereference-push-down
kafka.connect.commit-id kafka.connect.valid-through-ts kafka.connect.offsets.control-iceberg.control-group delta.columnMapping.mode
delta.enableRowTracking dbt_model dbt-version airflow.dag-id owner-id data-owner pii.columns contains-passwords max-token max_tokens
max-token-length min.token tokens-per-row tokenization token_type token-bucket-size secret-level secrets-scan-date password-hash-algorithm
password_rotation_days credential-type-count authorization-required bearer-of-risk jwt-column pwd-policy api-keyspace api-version
account-keyword key-prefix access-keyspace primary_keys foreign-key cluster-key distribution_key private-keyboard shared-keys-count
connection-stringency
""".split()  # noqa: SIM905 -- a list of names is read easier as text
"""Properties of Hive, Spark, Flink, Trino, Kafka Connect and others, and words with the parts of a suspicious one in another order."""

SPELLINGS = """
apikey apiKey API_KEY x-api-key my.apikey myApiKey api-key-v2 apiKeyId accountkey accountKey storage.accountkey account.key privatekey
privateKey rsa_privatekey private.key.pem sastoken sasToken SAS_TOKEN sas.token.account adls.sastoken.account authorization Authorization
my-authorization x.authorization bearer Bearer auth_bearer jwt JWT my-jwt my_jwt pwd db_pwd dbPwd DB.PWD dbpassword dbPassword db.passwd
userPassword s3.secret.access.key s3.secretAccessKey secretaccesskey secretKey SECRETKEY fs.s3a.secretkey s3.accessKeyId accesskeyid
aws_access_key_id awsAccessKeyId fs.s3a.accesskey clientsecret clientSecret oauth2clientsecret sessiontoken sessionToken s3.session_token
accesstoken accessToken refreshtoken authtoken auth-token auth_token my-token my_token githubToken oauth2.token securitytoken bearerToken
idtoken connectionstring connectionString adls.connectionstring.a sharedkey shared_key_x my-credential my_credentials gcsCredentials
oauth2ServerUri oauth2.server.uri ioimpl io_impl catalog_impl gcs.serviceaccountkey gcs_service_account_key adls.accountkey passPhrase
my_pass_phrase token. .token to_ken
""".split()  # noqa: SIM905 -- a list of names is read easier as text
"""The words for credentials with any separators."""


@pytest.mark.parametrize("name", ICEBERG_PROPERTIES + ENGINES_PROPERTIES)
def test_no_property_of_iceberg_or_an_engine_is_refused(name: str) -> None:
    """Tables of any writer can be registered."""
    refuse_credential_properties({name: "x"}, "properties")


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_credential_is_refused_however_its_name_is_spelled(name: str) -> None:
    """Separators and case do not matter."""
    assert is_credential_property(name)


@pytest.mark.parametrize("name", REFUSED)
def test_a_credential_is_refused_by_its_name(name: str) -> None:
    """Also among other properties. The message names the field and the key, not the value."""
    with pytest.raises(BadRequest) as refusal:
        refuse_credential_properties({"owner": "me", name: "canary-77"}, "properties")
    assert refusal.value.message.startswith("Invalid properties: ")
    assert name in refusal.value.message
    assert "canary-77" not in refusal.value.message


@pytest.mark.parametrize("name", KEPT)
def test_what_only_looks_alike_is_kept(name: str) -> None:
    """Negative control: ordinary words, and words that merely contain a suspicious one."""
    refuse_credential_properties({name: "token"}, "properties")


def test_a_long_name_costs_nothing() -> None:
    """The patterns take linear time: 64 KiB take a few milliseconds."""
    plain = ("a." * 32_768, "secret." * 9_000, "s3." + "x." * 32_000, "_-." * 20_000 + "x", "write." + ".column." * 8_000)
    for name in (*plain, "sas-token" * 7_000, "apiKey" * 10_000, "a_" * 30_000, "aB" * 30_000):
        started = time.process_time()
        is_credential_property(name)
        assert time.process_time() - started < 0.5


def test_a_long_name_is_cut_in_the_message() -> None:
    """The message does not repeat megabytes of the request."""
    with pytest.raises(BadRequest) as refusal:
        refuse_credential_properties(["x" * 10_000 + ".token"], "properties")
    assert len(refusal.value.message) < 500


def test_a_registered_file_has_a_bounded_number_of_properties() -> None:
    """The message contains the limit."""
    check_registered_properties({f"k{number}": "v" for number in range(REGISTERED_PROPERTIES_MAX)})
    with pytest.raises(BadRequest, match=f"more than {REGISTERED_PROPERTIES_MAX} properties"):
        check_registered_properties({f"k{number}": "v" for number in range(REGISTERED_PROPERTIES_MAX + 1)})


def test_words_of_credentials_end_where_words_end() -> None:
    """Also in the middle of a name. With a letter after it, it is another word."""
    assert is_credential_property("my.sasToken.account")
    assert is_credential_property("x" * 1_000 + "-ap-ikey_v2")
    assert not is_credential_property("sastokenx" * 100 + "y")
