"""Drops what Flink's Iceberg connector copies into the properties of a table that it creates: the options of its catalog.

The names are those of Iceberg 1.11: FlinkCreateTableOptions and FlinkCatalogFactory, CatalogProperties, RESTCatalogProperties,
OAuth2Properties and the properties of each FileIO.
"""

from collections.abc import Mapping

_NAME = "catalog-name"
_KINDS = frozenset({"catalog-type", "catalog-impl"})
"""A connector table for REST has the name and one of these, and no other client sends them."""
_OPTIONS = _KINDS | frozenset(
    (
        _NAME, "connector", "src-catalog", "catalog-database", "catalog-table", "use-dynamic-iceberg-sink", "dynamic-record-generator-impl",
        "type", "property-version", "default-database", "base-namespace", "hive-conf-dir", "hadoop-conf-dir",
        "uri", "warehouse", "prefix", "namespace-separator", "clients", "client-pool-cache-keys", "io-impl", "metrics-reporter-impl",
        "cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms", "lock-impl", "user", "app-id", "app-name",
        "credential", "token", "scope", "audience", "resource", "oauth2-server-uri", "token-expires-in-ms", "token-refresh-enabled",
        "token-exchange-enabled", "rest-page-size", "rest-metrics-reporting-enabled", "rest-scan-plan-id", "scan-planning-mode",
        "snapshot-loading-mode", "view-endpoints-supported", "unique-table-location", "encryption.kms-impl", "encryption.kms-type",
    )
)  # fmt: skip
_PREFIXES = (
    "s3.", "gcs.", "adls.", "oss.", "client.", "http-client.", "header.", "rest.", "auth.", "signer.", "glue.", "dynamodb.", "kms.",
    "azure.", "lakeformation.", "lock.", "io.manifest.", "rest-scan-planning.", "rest-table-cache.", "table-default.", "table-override.",
    "view-default.", "view-override.", "hadoop.", "fs.",
)  # fmt: skip


def without_connector_options(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties of a new table without the connector's options, if it is a connector table; credentials are among them."""
    if _NAME not in properties or _KINDS.isdisjoint(properties):
        return properties
    return {name: value for name, value in properties.items() if name not in _OPTIONS and not name.startswith(_PREFIXES)}
