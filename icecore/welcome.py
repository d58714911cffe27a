"""The welcome message of `icecore serve`: the address of the catalog, and examples to try."""

from rich.console import Console

from .database_url import database_address
from .demo_warehouse import DEMO_WAREHOUSE
from .settings import Settings

_ICEBERG_SPARK_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


def print_welcome(settings: Settings, url: str, *, embedded: bool) -> None:
    """Prints to standard output, or to standard error if a sink uses standard output. The message is not a log record and contains no
    secret.
    """
    console = Console(highlight=False, soft_wrap=True, stderr=any(sink.type == "stdout" for sink in settings.sinks.values()))
    catalog = f"{url}/catalog"
    console.print(f"\n[bold]Icecore[/] serves at [bold cyan]{catalog}[/]")
    if not embedded:
        console.print(f"  log        {database_address(settings.dsn) or 'the database of ICECORE_DATABASE_URL'}")
        console.print("  warehouses [dim]icecore warehouse list, icecore warehouse create NAME --profile JSON[/]\n")
        return
    console.print(f"  data       {settings.data_dir}", f"  warehouse  {DEMO_WAREHOUSE}", "", "[bold]PyIceberg[/]", sep="\n")
    console.print(_pyiceberg(catalog), style="green", markup=False)
    console.print("\n[bold]Spark[/]")
    console.print(_spark(catalog), style="green", markup=False)
    console.print(
        "\nEvents as they happen: [bold]icecore log --follow[/]" + f" --data {settings.data_dir}   (Ctrl-C here stops the server)\n"
    )


def _pyiceberg(catalog: str) -> str:
    return f"""\
from pyiceberg.catalog import load_catalog
import pyarrow as pa
catalog = load_catalog("icecore", type="rest", uri="{catalog}", warehouse="{DEMO_WAREHOUSE}")
catalog.create_namespace_if_not_exists("town")
people = pa.table({{"name": ["Ada", "Grace"], "born": [1815, 1906]}})
table = catalog.create_table_if_not_exists("town.people", schema=people.schema)
table.append(people)
print(table.scan().to_arrow())"""


def _spark(catalog: str) -> str:
    return f"""\
spark-sql --packages {_ICEBERG_SPARK_RUNTIME} \\
  --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\
  --conf spark.sql.catalog.icecore=org.apache.iceberg.spark.SparkCatalog \\
  --conf spark.sql.catalog.icecore.type=rest \\
  --conf spark.sql.catalog.icecore.uri={catalog} \\
  --conf spark.sql.catalog.icecore.warehouse={DEMO_WAREHOUSE} \\
  -e 'TABLE icecore.town.people'"""
