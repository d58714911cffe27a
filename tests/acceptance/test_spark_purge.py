"""`DROP TABLE … PURGE` of Spark in a soft-deleting warehouse: by default, Spark deletes the files itself, and an undrop notices."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from tests.fixtures.rest_client import RestResponse
from tests.integration.test_soft_deletion import MISSING, Client
from tests.servers.engines import EngineShell
from tests.servers.icecore import icecore
from tests.servers.moto import ACCESS_KEY_ID, REGION, S3, SECRET_ACCESS_KEY, moto_s3
from tests.servers.spark import catalog_settings, spark_4_1, spark_shell

ROWS = [[1, "Ada"], [2, "Bo"], [4, "Di"]]

pytestmark = pytest.mark.timeout(900)


@dataclass
class Lakes:
    """A Spark session with two soft-deleting warehouses on an S3 server, as the catalogs `ice` (default settings) and `kept`
    (push-s3-delete-disabled).
    """

    uri: str
    s3: S3
    shell: EngineShell

    def objects(self, warehouse: str) -> dict[str, bytes]:
        """The objects of a warehouse by their keys."""
        client = self._client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.s3.bucket, Prefix=f"{warehouse}/")
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {key: client.get_object(Bucket=self.s3.bucket, Key=key)["Body"].read() for key in keys}

    def put(self, objects: dict[str, bytes]) -> None:
        for key, data in objects.items():
            self._client().put_object(Bucket=self.s3.bucket, Key=key, Body=data)

    def _client(self) -> "boto3.client":
        keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}
        return boto3.client("s3", endpoint_url=self.s3.endpoint, region_name=REGION, **keys)

    def undrop(self, warehouse: str) -> RestResponse:
        """Undrops the only soft-deleted table."""
        with closing(Client(self.uri, warehouse)) as client:
            (found,) = client.deleted()
            return client.undrop(("table", found["id"]))

    def create(self, catalog: str) -> None:
        """A table with data files and a delete file for one of the rows."""
        self.shell.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.n")
        properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
        self.shell.sql(f"CREATE TABLE {catalog}.n.t (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ({properties})")
        self.shell.sql(f"INSERT INTO {catalog}.n.t VALUES (1, 'Ada'), (2, 'Bo')")
        self.shell.sql(f"INSERT INTO {catalog}.n.t SELECT /*+ REPARTITION(1) */ * FROM VALUES (3, 'Cy'), (4, 'Di')")
        self.shell.sql(f"DELETE FROM {catalog}.n.t WHERE id = 3")
        assert ROWS == self.rows(catalog)

    def rows(self, catalog: str) -> list[list[object]]:
        return self.shell.sql(f"SELECT * FROM {catalog}.n.t ORDER BY id")


@pytest.fixture(scope="module")
def lakes(scratch: Path) -> Iterator[Lakes]:
    with moto_s3(scratch) as s3, icecore(scratch / "data") as server:
        for warehouse in ("lake", "kept"):
            profile = {**s3.storage_profile, "key-prefix": warehouse, "push-s3-delete-disabled": warehouse == "kept"}
            server.create_warehouse(warehouse, profile, s3.storage_credential)
            with closing(Client(server.uri, warehouse)) as client:
                client.soft_delete()
        kept = {name.replace(".ice", ".kept", 1): value for name, value in catalog_settings(server.catalog_uri, "kept", s3).items()}
        settings = {**kept, **catalog_settings(server.catalog_uri, "lake", s3)}
        with spark_shell(spark_4_1(s3=True), settings, scratch / "spark", s3) as shell:
            yield Lakes(server.uri, s3, shell)


def test_a_table_whose_files_spark_has_deleted_is_not_undropped(lakes: Lakes) -> None:
    """All of them; all but the metadata, as by a purge that failed; or only a delete file. With its files, it is undropped and read.

    A drop without PURGE is the negative control: Spark deletes nothing, and nothing is missing.
    """
    lakes.create("ice")
    before = lakes.objects("lake")
    lakes.shell.sql("DROP TABLE ice.n.t")
    assert before == lakes.objects("lake")
    assert 204 == lakes.undrop("lake").status
    assert ROWS == lakes.rows("ice")

    lakes.shell.sql("DROP TABLE ice.n.t PURGE")
    assert {} == lakes.objects("lake")
    refused = lakes.undrop("lake")
    assert MISSING == refused.error
    assert any(key in refused.message for key in before if key.endswith(".metadata.json"))

    data = {key for key in before if "/data/" in key}
    deletes = {key for key in data if key.endswith("-deletes.parquet")}
    assert deletes
    assert data - deletes
    lakes.put({key: before[key] for key in before.keys() - data})
    refused = lakes.undrop("lake")
    assert MISSING == refused.error
    assert {key for key in before if key in refused.message} == data, "the files that its current snapshot needs"
    lakes.put({key: before[key] for key in data - deletes})
    refused = lakes.undrop("lake")
    assert MISSING == refused.error
    assert {key for key in before if key in refused.message} == deletes
    lakes.put({key: before[key] for key in deletes})
    assert 204 == lakes.undrop("lake").status
    assert ROWS == lakes.rows("ice")


def test_a_warehouse_whose_clients_delete_no_files_undrops_what_spark_has_purged(lakes: Lakes) -> None:
    """`push-s3-delete-disabled`: the files stay, and the rows are read."""
    lakes.create("kept")
    before = lakes.objects("kept")
    lakes.shell.sql("DROP TABLE kept.n.t PURGE")
    assert before == lakes.objects("kept")
    assert 204 == lakes.undrop("kept").status
    assert ROWS == lakes.rows("kept")
