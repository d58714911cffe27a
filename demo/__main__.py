"""Runs the demo and deletes everything it created."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow
from pyiceberg.catalog import load_catalog
from pyiceberg.types import StringType
from rich.console import Console

from demo.live_events import LiveEvents
from demo.servers import PROGRAM, DemoFailedError, icecore, run_pipeline, run_spark

HERE = Path(__file__).resolve().parent


def main() -> int:
    console = Console(highlight=False, soft_wrap=True, force_terminal=True)
    began = time.monotonic()
    try:
        # The embedded Postgres runs as another account if this process is root. That account must be able to enter the folder.
        with tempfile.TemporaryDirectory(prefix="icecore-demo-") as folder:
            Path(folder).chmod(0o755)
            show(console, Path(folder))
    except DemoFailedError as failure:
        console.print(f"[red]{failure}[/]", markup=True)
        return 1
    console.print(f"\n[dim]{time.monotonic() - began:.0f} s[/]")
    return 0


def show(console: Console, scratch: Path) -> None:
    """Runs PyIceberg and Spark on a catalog in that folder. Shows the events as they arrive, then the log."""
    data = scratch / "data"
    with icecore(data) as catalog_uri:
        history_uri = f"{catalog_uri.removesuffix('/catalog')}/history/v1"
        console.print(f"[bold]Icecore[/] serves at [cyan]{catalog_uri}[/], its events at [cyan]{history_uri}/events[/]")
        live = LiveEvents(console, history_uri)
        console.rule("[bold]PyIceberg")
        write_with_pyiceberg(console, catalog_uri)
        live.catch_up()
        console.rule("[bold]Spark SQL")
        run_spark(HERE / "spark_script.py", "town", catalog_uri, "demo", scratch)
        live.catch_up()
        console.rule("[bold]The log: icecore log")
        say("log", "--data", str(data))
        console.rule("[bold]The log proves what engines read: icecore verify")
        say("verify", "--data", str(data))
        console.rule("[bold]The log as Iceberg tables: icecore pipeline ingest")
        profile = {"type": "local", "directory": str(data / "system")}
        (data / "system").mkdir()
        say("warehouse", "create", "system", "--profile", json.dumps(profile), "--data", str(data))
        run_pipeline("ingest", data, scratch)
        run_spark(HERE / "spark_script.py", "log", catalog_uri, "system", scratch)


def write_with_pyiceberg(console: Console, catalog_uri: str) -> None:
    catalog = load_catalog("icecore", type="rest", uri=catalog_uri, warehouse="demo")
    catalog.create_namespace("town")
    people = pyarrow.table({"name": ["Ada", "Grace"], "born": [1815, 1906]})
    table = catalog.create_table("town.people", schema=people.schema)
    table.append(people)
    console.print("  a namespace, a table, two rows:", table.scan().to_arrow().to_pylist())
    with table.update_schema() as change:
        change.add_column("field", StringType())
    table.append(pyarrow.table({"name": ["Edsger"], "born": [1930], "field": ["paths"]}))
    console.print("  a new column, a third row:", table.scan(row_filter="born > 1900").to_arrow().to_pylist())
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    console.print("  as it was first:", table.scan(snapshot_id=snapshots[0]).to_arrow().num_rows, "rows")


def say(*arguments: str) -> None:
    """Runs an icecore command. Its output is coloured on a terminal."""
    sys.stdout.flush()
    done = subprocess.run([str(PROGRAM), *arguments], check=False)
    if done.returncode != 0:
        raise DemoFailedError(f"icecore {arguments[0]} ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
