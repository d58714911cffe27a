"""Nessie from Maven Central, a peer for benchmarks: its versions are in Postgres, its files on an S3 server (it supports no local
files).

It needs Java 21, which the PyPI packages of Spark 3.5 include.
"""

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from tests.servers.java import JavaServer, java_server
from tests.servers.maven import Jar, jar
from tests.servers.moto import ACCESS_KEY_ID, REGION, S3, SECRET_ACCESS_KEY, moto_s3
from tests.servers.postgres import debian_postgres
from tests.servers.processes import free_port, responds, until_ended
from tests.servers.spark import spark_3_5

# The newest version with a runner in Maven Central.
RUNNER = Jar(
    "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner",
    "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417",
)
WAREHOUSE = "warehouse"


def jdbc_url(dsn: str) -> str:
    """The JDBC URL of a Postgres on loopback; its user needs no password."""
    parts = conninfo_to_dict(dsn)
    return f"jdbc:postgresql://127.0.0.1:{parts['port']}/{parts['dbname']}?{urlencode({'user': parts['user']})}"


@contextlib.contextmanager
def nessie_server(directory: Path, dsn: str, s3: S3) -> Iterator[JavaServer]:
    """A server with default settings on its own database and that S3 server, with the warehouse WAREHOUSE."""
    port, management = free_port(), free_port()
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "nessie.version.store.type": "JDBC",
        "nessie.version.store.persist.jdbc.datasource": "postgresql",
        "quarkus.datasource.postgresql.jdbc.url": jdbc_url(dsn),
        "nessie.catalog.default-warehouse": WAREHOUSE,
        f"nessie.catalog.warehouses.{WAREHOUSE}.location": f"s3://{s3.bucket}/nessie",
        "nessie.catalog.service.s3.default-options.endpoint": s3.endpoint,
        "nessie.catalog.service.s3.default-options.path-style-access": "true",
        "nessie.catalog.service.s3.default-options.region": REGION,
        "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:store",
        "store.name": ACCESS_KEY_ID,
        "store.secret": SECRET_ACCESS_KEY,
    }
    arguments = [*(f"-D{name}={value}" for name, value in settings.items()), "-jar", str(jar(RUNNER))]
    java = Path(spark_3_5().environment["JAVA_HOME"])
    ready = functools.partial(responds, f"http://127.0.0.1:{management}/q/health/ready")
    with java_server(arguments, uri=f"http://127.0.0.1:{port}/iceberg", log=directory / "nessie.log", ready=ready, home=java) as server:
        yield server


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as scratch,
        debian_postgres() as database,
        moto_s3(Path(scratch)) as store,
        nessie_server(Path(scratch), database, store) as started,
    ):
        print(started.uri, flush=True)
        until_ended()
