"""A view of another engine, for tests of engines that have no views."""

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

ONE_COLUMN = Schema(NestedField(1, "one", IntegerType(), required=False))
SQL = SQLViewRepresentation(type="sql", sql="SELECT 1 AS one", dialect="spark")


def create_view(catalog: Catalog, namespace: str, name: str) -> None:
    """A view in Spark's dialect."""
    # Mypy knows only the aliases of its fields.
    version = ViewVersion(  # type: ignore[call-arg]
        version_id=1, schema_id=0, timestamp_ms=1, summary={}, representations=[SQL], default_namespace=[namespace]
    )
    catalog.create_view(f"{namespace}.{name}", ONE_COLUMN, version)
