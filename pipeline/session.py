"""The Spark settings for an Icecore catalog."""

from collections.abc import Mapping

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def catalog_settings(name: str, uri: str, warehouse: str, **more: str) -> Mapping[str, str]:
    """The `spark.…` settings that make `uri` the Spark catalog `name`.

    warehouse -- a warehouse's name or id; with `@<position>` or `@<RFC 3339 time>` a read-only past state.
    more -- further properties of the catalog, with `_` for `-` and `__` for a dot: `io_impl`, `s3__endpoint`, `cache_enabled`.
    """
    catalog = f"spark.sql.catalog.{name}"
    properties = {key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}
    return {
        "spark.sql.extensions": EXTENSIONS,
        catalog: SPARK_CATALOG,
        f"{catalog}.type": "rest",
        f"{catalog}.uri": uri,
        f"{catalog}.warehouse": warehouse,
        **{f"{catalog}.{key}": value for key, value in properties.items()},
    }
