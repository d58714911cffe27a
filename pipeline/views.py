"""Views on the landed tables, which the pipeline keeps in their namespace, in the dialects of Spark and Trino.

A view names no catalog for Spark, so Spark reads it whatever the session calls the catalog. Trino needs the catalog of each name in a view:
there it must be called `icecore`.
"""

from typing import Any

from ..database.named_sql import named_sql
from .landed_tables import NAMESPACE
from .session import CATALOG, SparkSession, java_errors

_SQL = named_sql("icecore.pipeline", "views.sql")
_QUALIFIED = f"{CATALOG}.{NAMESPACE}."

VIEWS = {
    "live_tables": "The tables that exist and are not soft-deleted.",
    "table_growth": "Commits, rows and bytes of each table by day.",
    "hot_tables": "Commits and scans of the last 7 days.",
    "writer_conflicts": "Commits that engines reported, and how often they conflicted with others.",
    "small_files": "How many data files each table has beyond what its target file size needs.",
    "table_readers": "Scans of each table by engine and principal.",
    "unused_tables": "Tables without a commit and without a reported scan for 30 days.",
}
"""The views and what each shows, in the order in which they are created: a view uses only earlier ones."""


def view_query(name: str, namespace: str = "") -> str:
    """The query of a view. namespace -- that of the tables, with a dot at its end; empty: that of the session or the view."""
    return _SQL[name].format(log=namespace)


def create_views(spark: SparkSession) -> None:
    """Creates the views, and replaces those that another version of Icecore created. Two jobs may do so at once."""
    # CREATE VIEW would store the name that the catalog has in this session, and sessions with another name could not read the view.
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG).icebergCatalog()
    for name, comment in VIEWS.items():
        if _stored_query(spark, catalog, name) != view_query(name):
            try:
                _create(spark, catalog, name, comment)
            except Exception as error:
                # Another job was first.
                if not java_errors(error) or _stored_query(spark, catalog, name) != view_query(name):
                    raise


def _create(spark: SparkSession, catalog: Any, name: str, comment: str) -> None:
    iceberg = spark._jvm.org.apache.iceberg
    rows = spark.sql(view_query(name, _QUALIFIED))
    builder = (
        catalog.buildView(_identifier(spark, name))
        .withSchema(iceberg.spark.SparkSchemaUtil.convert(rows._jdf.schema()))
        .withDefaultNamespace(_namespace(spark))
        .withProperty("comment", comment)
        .withQuery("spark", view_query(name))
        .withQuery("trino", view_query(name, _QUALIFIED))
    )
    builder.createOrReplace()


def _stored_query(spark: SparkSession, catalog: Any, name: str) -> str | None:
    """The query of the view for Spark; None if there is no such view."""
    identifier = _identifier(spark, name)
    if not catalog.viewExists(identifier):
        return None
    stored = catalog.loadView(identifier).sqlFor("spark")
    return None if stored is None else stored.sql()


def _identifier(spark: SparkSession, name: str) -> Any:
    return spark._jvm.org.apache.iceberg.catalog.TableIdentifier.of(_namespace(spark), name)


def _namespace(spark: SparkSession) -> Any:
    levels = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 1)
    levels[0] = NAMESPACE
    return spark._jvm.org.apache.iceberg.catalog.Namespace.of(levels)
