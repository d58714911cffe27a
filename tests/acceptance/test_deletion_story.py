"""The life of a deletion from end to end, over HTTP and at the command line.

An operator makes a project and warehouses, Spark writes and drops, the operator undrops. What expires loses its files only where that was
asked for.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import boto3
import psycopg
import pytest

from icecore.commands.execution.clock import now_ms
from icecore.commands.execution.executor import CommandExecutor
from icecore.compose import Application
from icecore.projections.verify import verify
from tests.fixtures.clocks import clocks_behind
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestResponse
from tests.fixtures.shared_server import SharedCatalog, shared
from tests.integration.test_projects import Tenants
from tests.servers.engines import EngineShell, SqlRefusedError
from tests.servers.moto import ACCESS_KEY_ID, REGION, S3, SECRET_ACCESS_KEY, moto_s3
from tests.servers.spark import catalog_settings, spark_4_1, spark_shell

DAY_MS = 86_400_000
ROWS = [[1, "Ada"], [2, "Bo"], [3, "Cy"]]

pytestmark = pytest.mark.timeout(900)


class Operator(Protocol):
    """What an operator does, in one project that `begin` creates."""

    def begin(self, project: str) -> None: ...
    def create_warehouse(self, name: str, profile: dict[str, Any], credential: dict[str, Any] | None) -> None: ...
    def delete_softly(self, warehouse: str) -> None:
        """For 7 days."""

    def purge_by_default(self, warehouse: str) -> None: ...
    def deleted(self, warehouse: str) -> dict[str, str]:
        """The ids of the tables that can be undropped, by name."""
        ...

    def undrop(self, warehouse: str, *ids: str) -> None: ...
    def drop_tree(self, warehouse: str, namespace: str) -> None: ...
    def undrop_tree(self, warehouse: str) -> None:
        """The only one that can be undropped."""


@dataclass
class OverHttp:
    """Requests as Lakekeeper's clients send them."""

    client: Tenants
    project: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: Any = None) -> RestResponse:
        answer = self.client.send(method, path, body, project=self.project or None)
        assert answer.status in (200, 201, 204), answer.body
        return answer

    def of(self, warehouse: str, method: str, path: str, body: Any = None) -> Any:
        answer = self.send(method, f"/management/v1/warehouse/{self.ids[warehouse]}{path}", body)
        return answer.json if answer.body else None

    def begin(self, project: str) -> None:
        assert self.send("GET", "/management/v1/info").json["bootstrapped"]
        self.project = self.client.create(project)

    def create_warehouse(self, name: str, profile: dict[str, Any], credential: dict[str, Any] | None) -> None:
        body = {"warehouse-name": name, "storage-profile": profile, **({"storage-credential": credential} if credential else {})}
        self.ids[name] = self.send("POST", "/management/v1/warehouse", body).json["id"]

    def delete_softly(self, warehouse: str) -> None:
        self.of(warehouse, "POST", "/delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 7 * 86_400}})

    def purge_by_default(self, warehouse: str) -> None:
        self.of(warehouse, "POST", "/purge-default", {"purge-default": True})

    def deleted(self, warehouse: str) -> dict[str, str]:
        return {each["name"]: each["id"] for each in self.of(warehouse, "GET", "/deleted-tabulars")["tabulars"]}

    def undrop(self, warehouse: str, *ids: str) -> None:
        self.of(warehouse, "POST", "/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": each} for each in ids]})

    def drop_tree(self, warehouse: str, namespace: str) -> None:
        self.send("DELETE", f"/catalog/v1/{self.ids[warehouse]}/namespaces/{namespace}?recursive=true")

    def undrop_tree(self, warehouse: str) -> None:
        ((namespace_id,),) = [[each["id"]] for each in self.of(warehouse, "GET", "/deleted-namespaces")["namespaces"]]
        self.of(warehouse, "POST", f"/deleted-namespaces/{namespace_id}/undrop", {})


@dataclass
class AtTheCommandLine:
    """`icecore …` on the same database."""

    dsn: str
    project: str = ""

    def run(self, *arguments: str) -> str:
        done = icecore(self.dsn, *arguments)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def of(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--project", self.project, "--json"))

    def begin(self, project: str) -> None:
        self.run("wait-for-db")
        self.run("project", "create", project)
        self.project = project

    def create_warehouse(self, name: str, profile: dict[str, Any], credential: dict[str, Any] | None) -> None:
        options = ["--credential", json.dumps(credential)] if credential else []
        self.run("warehouse", "create", name, "--project", self.project, "--profile", json.dumps(profile), *options)

    def delete_softly(self, warehouse: str) -> None:
        self.of("warehouse", "delete-profile", warehouse, "--soft", "7d")

    def purge_by_default(self, warehouse: str) -> None:
        self.of("warehouse", "purge-default", warehouse)

    def deleted(self, warehouse: str) -> dict[str, str]:
        return {each["name"]: each["id"] for each in self.of("table", "deleted", warehouse)}

    def undrop(self, warehouse: str, *ids: str) -> None:
        self.run("undrop", warehouse, *ids, "--project", self.project)

    def drop_tree(self, warehouse: str, namespace: str) -> None:
        self.run("namespace", "drop", warehouse, namespace, "--recursive", "--project", self.project)

    def undrop_tree(self, warehouse: str) -> None:
        ((namespace_id,),) = [[each["id"]] for each in self.of("namespace", "deleted", warehouse)]
        self.run("undrop", warehouse, namespace_id, "--project", self.project)


@dataclass
class Story:
    """The server with what executes its commands, the S3 server, and Spark."""

    catalog: SharedCatalog
    commands: CommandExecutor
    s3: S3
    directory: Path

    def keys(self, prefix: str) -> set[str]:
        """The objects of the bucket."""
        client = boto3.client(
            "s3",
            endpoint_url=self.s3.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.s3.bucket, Prefix=prefix)
        return {found["Key"] for page in pages for found in page.get("Contents", ())}

    def run_jobs(self) -> None:
        """As the worker does, until nothing is due."""
        open_tasks = "select 1 from icecore.tasks where to_position is null and (queue = 'tabular_purge' or scheduled_for_ms <= %s)"
        parts = self.catalog.parts
        for _ in range(100):
            self.catalog.run(parts.soft_deletion.run_once())
            self.catalog.run(parts.purge.run_once())
            if not self.catalog.rows(open_tasks, now_ms()):
                return
        raise AssertionError("expiries and purges do not end")


@pytest.fixture
def story(new_database: Callable[[], str], scratch: Path) -> Iterator[Story]:
    with moto_s3(scratch) as s3:
        settings = {"local_warehouse_roots": (scratch,), "warehouse_endpoints": (s3.endpoint,), "jobs": False}
        served: list[Application] = []
        with shared(new_database(), prepare=served.append, **settings) as opened:
            yield Story(opened, served[0].commands, s3, scratch)


def local_files(directory: Path) -> set[str]:
    return {str(each) for each in directory.rglob("*") if each.is_file()}


@pytest.fixture(params=["http", "command line"])
def operator(request: pytest.FixtureRequest, story: Story) -> Iterator[Operator]:
    with closing(Tenants(story.catalog.server.url)) as client:
        yield OverHttp(client) if request.param == "http" else AtTheCommandLine(story.catalog.server.dsn)


def second_catalog(shell: EngineShell, settings: dict[str, str]) -> None:
    """Another warehouse as the catalog `local` of the session."""
    for name, value in settings.items():
        if name.startswith("spark.sql.catalog.ice"):
            shell.sql(f"SET `{name.replace('.ice', '.local', 1)}` = `{value}`")


def test_the_life_of_a_deletion(story: Story, operator: Operator, request: pytest.FixtureRequest) -> None:
    """Undropped tables and namespaces have their rows. Each file goes by a purge that was asked for, and no other file goes."""
    team = f"team-{request.node.callspec.params['operator'].replace(' ', '-')}"
    local = story.directory / team
    operator.begin(team)
    operator.create_warehouse("lake", {**story.s3.storage_profile, "key-prefix": team}, story.s3.storage_credential)
    operator.create_warehouse("files", {"type": "local", "directory": str(local)}, None)
    for warehouse in ("lake", "files"):
        operator.delete_softly(warehouse)
    operator.purge_by_default("lake")
    uri, spark = f"{story.catalog.server.url}/catalog", spark_4_1(s3=True)
    settings = catalog_settings(uri, f"{team}/lake", story.s3)
    with spark_shell(spark, settings, story.directory / f"{team}-spark", story.s3) as shell:
        second_catalog(shell, catalog_settings(uri, f"{team}/files"))
        for table in ("ice.sales.orders", "ice.sales.customers", "local.sales.orders"):
            shell.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
            shell.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg")
            shell.sql(f"INSERT INTO {table} VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy')")
        whole, on_disk = story.keys(team), local_files(local)
        assert whole
        assert on_disk

        # A table: dropped, undropped, read again.
        shell.sql("DROP TABLE ice.sales.orders")
        assert [["sales", "customers", False]] == shell.sql("SHOW TABLES IN ice.sales")
        shell.sql("CREATE NAMESPACE ice.other")
        dropped = operator.deleted("lake")
        assert {"orders"} == set(dropped)
        assert whole == story.keys(team)
        operator.undrop("lake", dropped["orders"])
        assert ROWS == shell.sql("SELECT * FROM ice.sales.orders ORDER BY id")

        # A namespace that holds only soft-deleted tables is refused, with their names; with all that is in it, it comes back.
        shell.sql("DROP TABLE local.sales.orders")
        with pytest.raises(SqlRefusedError, match="orders"):
            shell.sql("DROP NAMESPACE local.sales")
        operator.undrop("files", *operator.deleted("files").values())
        operator.drop_tree("lake", "sales")
        assert [["other"]] == shell.sql("SHOW NAMESPACES IN ice")
        assert whole == story.keys(team)
        operator.undrop_tree("lake")
        for table in ("orders", "customers"):
            assert ROWS == shell.sql(f"SELECT * FROM ice.sales.{table} ORDER BY id")

        # Seven days later, by the clock: only what was to be purged loses its files.
        story.run_jobs()
        assert whole == story.keys(team)
        with clocks_behind(story.commands, 8 * DAY_MS):
            for table in ("ice.sales.orders", "local.sales.orders"):
                shell.sql(f"DROP TABLE {table}")
        orders = story.keys(team) - keys_of_table(story, team, "customers")
        story.run_jobs()
        assert story.keys(team) == whole - orders
        assert orders
        assert ROWS == shell.sql("SELECT * FROM ice.sales.customers ORDER BY id")
        assert on_disk == local_files(local), "the drop did not ask for a purge"
        assert {} == operator.deleted("lake") == operator.deleted("files")

        with clocks_behind(story.commands, 8 * DAY_MS):
            shell.sql("DROP TABLE ice.sales.customers")
        story.run_jobs()
        assert set() == story.keys(team)
        for namespace in ("ice.sales", "ice.other", "local.sales"):
            shell.sql(f"DROP NAMESPACE {namespace}")
    assert [] == story.catalog.run(verify(story.catalog.server.dsn)).differences
    assert {
        "project.created",
        "warehouse.created",
        "table.dropped",
        "table.undropped",
        "namespace.undropped",
        "table.expired",
        "table.purged",
    } <= {topic.rpartition(".")[0] for topic in topics(story, team)}


def keys_of_table(story: Story, prefix: str, name: str) -> set[str]:
    """The objects below the location of a table, by the read model."""
    select = "select metadata_location from icecore.tables where name = %s and metadata_location like %s order by version desc limit 1"
    ((file,),) = story.catalog.rows(select, name, f"%/{prefix}/%")
    return story.keys(file.partition(f"{story.s3.bucket}/")[2].partition("metadata/")[0])


def topics(story: Story, project: str) -> set[str]:
    with psycopg.connect(story.catalog.server.dsn) as connection:
        select = "select topic from icecore.events where project_id = (select distinct project_id from icecore.projects where name = %s)"
        return {topic for (topic,) in connection.execute(select, [project])}
