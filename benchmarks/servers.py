"""The measured servers: one Postgres for a run, our server on it with any number of workers, and the references."""

import contextlib
import functools
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import uvloop
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from benchmarks.rest import RestCatalog
from icecore.embedded_postgres import embedded_postgres
from icecore.migrations.apply import apply_migrations
from icecore.settings import Settings
from tests.servers.postgres import debian_postgres
from tests.servers.processes import free_port, listens, running

ROOT = Path(__file__).resolve().parents[1]
WAREHOUSE = "bench"
START_SECONDS_MAX = 60.0
EMBEDDED, DEBIAN = "embedded", "debian"
# Memory for about fifty tables: random reads of thousands of tables are rarely cached, but the warehouse is.
TABLES_UNCACHED = {"ICECORE_READ_CACHE_BYTES_MAX": str(256 * 1024)}
_SECRET_KEY = "YmVuY2htYXJrcyBvbmx5LCB0aGlydHktdHdvIGJ5dGU="


@dataclass(frozen=True, slots=True)
class Cluster:
    """The Postgres of one run, in a folder that is deleted with the run."""

    directory: Path
    dsn: str
    _made: dict[str, str] = field(default_factory=dict)

    def database(self, name: str, *, migrated: bool = True) -> str:
        """The DSN of the run's database of that name, which is created on first use."""
        if name not in self._made:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
            self._made[name] = make_conninfo(self.dsn, dbname=name)
            if migrated:
                uvloop.run(apply_migrations(self._made[name]))
        return self._made[name]

    def folder(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path

    def version(self) -> str:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("show server_version").fetchone()
        assert row is not None
        return str(row[0])


@contextlib.contextmanager
def cluster(postgres: str = EMBEDDED) -> Iterator[Cluster]:
    """`embedded`: as `icecore serve` sets it up; `debian`: the distribution's server with its default settings."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-bench-"))
    directory.chmod(0o755)
    started = debian_postgres(directory=directory / "postgres") if postgres == DEBIAN else embedded_postgres(directory / "postgres")
    try:
        with started as dsn:
            # By socket, like the embedded one, so that only the servers differ.
            yield Cluster(directory, make_conninfo(dsn, host=str(directory / "postgres")) if postgres == DEBIAN else dsn)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def settings_of(dsn: str) -> Settings:
    """The settings for seeding without HTTP."""
    return Settings(database_url=SecretStr(dsn), secret_key=SecretStr(_SECRET_KEY))


@dataclass(frozen=True, slots=True)
class Service:
    """Our running server. `process_id` is that of the only worker, or of the supervisor."""

    uri: str
    dsn: str
    process_id: int
    profile: Path | None

    def catalog(self, warehouse: str = WAREHOUSE) -> RestCatalog:
        return RestCatalog(f"{self.uri}/catalog", warehouse)


def environment_of(dsn: str, settings: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of one of our processes on that database: default settings, changed by `settings`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    return environment | {
        "ICECORE_DATABASE_URL": dsn,
        "ICECORE_SECRET_KEY": _SECRET_KEY,
        "ICECORE_LOG_LEVEL": "warning",
        **(settings or {}),
    }


@contextlib.contextmanager
def our_server(
    cluster: Cluster, dsn: str, *, workers: int = 1, settings: dict[str, str] | None = None, profile: Path | None = None
) -> Iterator[Service]:
    """`icecore serve` on a database of the run: default settings, changed by `settings`.

    profile -- the file to which a profile is written (one worker only).
    """
    port = free_port()
    environment = environment_of(dsn, settings)
    module = ["-m", "icecore"] if profile is None or workers > 1 else ["-m", "benchmarks.profiled", str(profile)]
    command = [sys.executable, *module, "serve", "--port", str(port), "--workers", str(workers)]
    uri = f"http://127.0.0.1:{port}"
    log = cluster.directory / f"server-{secrets.token_hex(4)}.log"
    # A response would not suffice: one worker responds while another still starts, and accepts its connections.
    ready = functools.partial(_says, log, f"{uri}/catalog")
    with running(command, log=log, ready=ready, seconds_max=START_SECONDS_MAX, environment=environment, directory=ROOT) as process:
        yield Service(uri, dsn, process.pid, profile)


def _says(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text(errors="replace")


@contextlib.contextmanager
def reference_server(cluster: Cluster, name: str) -> Iterator[tuple[str, int]]:
    """The frozen `read_server` or `write_server` on its own database in the same Postgres; yields its address."""
    port = free_port()
    dsn = cluster.database("reference", migrated=False)
    command = [sys.executable, "-m", f"benchmarks.reference.{name}", dsn, str(port)]
    if name == "write_server":
        command.append(str(cluster.folder("reference-files")))
    log = cluster.directory / f"{name}.log"
    with running(command, log=log, ready=functools.partial(listens, port), seconds_max=START_SECONDS_MAX, directory=ROOT):
        yield "127.0.0.1", port


def store_reference_body(cluster: Cluster, body_id: str, body: bytes) -> None:
    """Stores a body that the reference for reads responds with."""
    with psycopg.connect(cluster.database("reference", migrated=False), autocommit=True) as connection:
        connection.execute(
            "insert into reference_bodies values (%s, %s) on conflict (id) do update set body = excluded.body", (body_id, body)
        )
