"""The commands of docs/how-to/database-roles.md, backup.md and production.md, as they are on the pages. A restored database agrees with
its log.
"""

import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyiceberg.catalog import load_catalog

from icecore.embedded_postgres.binaries import _packaged_binaries
from icecore.security.secrets import SecretKey
from tests.fixtures.readme import pieces, properties
from tests.servers.icecore import PROGRAM, CommandFailedError, Icecore, clean_environment, icecore, operate
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running

ROLES = pieces((ROOT / "docs" / "how-to" / "database-roles.md").read_text())
BACKUP = pieces((ROOT / "docs" / "how-to" / "backup.md").read_text())
PRODUCTION = pieces((ROOT / "docs" / "how-to" / "production.md").read_text())
SYSTEMD = pieces((ROOT / "docs" / "how-to" / "systemd.md").read_text())
SECONDS_MAX = 120


@pytest.fixture(scope="module")
def programs() -> str:
    """A PATH with `icecore` and Postgres's programs."""
    return os.pathsep.join((str(PROGRAM.parent), str(_packaged_binaries(None)), os.environ["PATH"]))


class Cluster:
    """The session's Postgres with the page's two roles. Databases are created by the page's commands, with different names."""

    def __init__(self, admin_dsn: str, programs: str, folder: Path) -> None:
        self.admin_dsn, self._folder = admin_dsn, folder
        address = conninfo_to_dict(admin_dsn)
        self._environment = clean_environment() | {
            "PATH": programs, "PGHOST": str(address["host"]), "PGPORT": str(address["port"]), "PGUSER": str(address["user"]),
            "OWNER_PASSWORD": "one", "SERVER_PASSWORD": "two", "ICECORE_SECRET_KEY": "A" * 43 + "=",
        }  # fmt: skip
        self.databases: list[str] = []

    def database(self) -> dict[str, str]:
        """The settings of a new database, without a schema."""
        name = f"test_{secrets.token_hex(6)}"
        command = ROLES["create roles"].replace("DATABASE icecore ", f"DATABASE {name} ")
        assert name in command
        if self.databases:
            command = "\n".join(line for line in command.splitlines() if not line.startswith("CREATE ROLE"))
        self.run(command)
        self.databases.append(name)
        return {
            "ICECORE_DATABASE_URL": make_conninfo(self.admin_dsn, dbname=name, user="icecore_server"),
            "ICECORE_DATABASE_OWNER_URL": make_conninfo(self.admin_dsn, dbname=name, user="icecore_owner"),
        }

    def run(self, command: str, **settings: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", command], capture_output=True, text=True, timeout=SECONDS_MAX, cwd=self._folder,
            env=self._environment | settings, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise CommandFailedError(done.stdout + done.stderr)
        return done.stdout

    def serve_once(self, **settings: str) -> None:
        """Starts `icecore serve`, waits for a response and stops it."""
        port = free_port()
        with running(
            [PROGRAM, "serve", "--port", str(port)], log=self._folder / "serve.log", seconds_max=SECONDS_MAX,
            ready=lambda: responds(f"http://127.0.0.1:{port}/health"), environment=self._environment | settings,
        ):  # fmt: skip
            pass


@pytest.fixture(scope="module")
def cluster(admin_dsn: str, programs: str, scratch: Path) -> Iterator[Cluster]:
    made = Cluster(admin_dsn, programs, scratch)
    yield made
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for name in made.databases:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute("DROP ROLE icecore_owner")
        connection.execute("DROP ROLE icecore_server")


@pytest.fixture(scope="module")
def served(scratch: Path) -> Iterator[Icecore]:
    """A catalog on the embedded Postgres, in the folder `.icecore` of the page, with a table."""
    with icecore(scratch / ".icecore") as server:
        catalog = load_catalog("icecore", type="rest", uri=server.catalog_uri, warehouse="demo")
        catalog.create_namespace("town")
        yield server


def test_backup_and_restore(cluster: Cluster, scratch: Path) -> None:
    """A dump of one database, restored into another, has the same log; the server role alone serves it."""
    original = cluster.database()
    assert "applied" in cluster.run(ROLES["migrate"], **original)
    cluster.run(f'icecore warehouse create lake --profile \'{{"type": "local", "directory": "{scratch}/lake"}}\'', **original)
    cluster.run(BACKUP["dump"], **original)
    restored = cluster.database()
    cluster.run(BACKUP["restore"], **restored)
    assert cluster.run("icecore log --json", **original) == cluster.run("icecore log --json", **restored)
    del restored["ICECORE_DATABASE_OWNER_URL"]
    cluster.serve_once(**restored)
    with pytest.raises(CommandFailedError, match="ICECORE_DATABASE_OWNER_URL"):
        cluster.run("icecore rebuild", **restored)


def test_dump_of_the_embedded_postgres(cluster: Cluster, scratch: Path, served: Icecore) -> None:
    """The dump is taken while the catalog serves, and restored to another Postgres."""
    cluster.run(BACKUP["dump embedded"])
    restored = cluster.database()
    cluster.run(BACKUP["restore"], **restored)
    assert operate("log", "--json", "--data", str(served.data)) == cluster.run("icecore log --json", **restored)
    assert "town" in cluster.run("icecore log", **restored)


def test_verify_finds_a_damaged_restore(cluster: Cluster, scratch: Path) -> None:
    """Negative control: a row that is missing after the restore is found."""
    damaged = cluster.database()
    cluster.run(ROLES["migrate"], **damaged)
    cluster.run(f'icecore warehouse create other --profile \'{{"type": "local", "directory": "{scratch}/other"}}\'', **damaged)
    with psycopg.connect(damaged["ICECORE_DATABASE_OWNER_URL"], autocommit=True) as connection:
        connection.execute("delete from icecore.names")
        connection.execute("delete from icecore.warehouses")
    with pytest.raises(CommandFailedError):
        cluster.run("icecore verify", **damaged)


def test_account_and_key_of_production(tmp_path: Path) -> None:
    """The account is that of the systemd unit, and the key can be used. Here the key belongs to the account of the tests."""
    account, *key = PRODUCTION["account and key"].splitlines()
    program, *options, name = account.split()
    described = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(option in described for option in options if option.startswith("--"))
    assert f"\nUser={name}\n" in SYSTEMD["systemd unit"]
    command = "\n".join(key).replace("/etc/icecore", str(tmp_path / "etc")).replace(f"-o {name}", f"-o {os.geteuid()}")
    subprocess.run(["bash", "-e", "-c", command], check=True, capture_output=True, timeout=SECONDS_MAX)
    file = tmp_path / "etc" / "secret.key"
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert f"/etc/icecore/{file.name}" == properties(SYSTEMD["systemd environment"])["ICECORE_SECRET_KEY_FILE"]
    SecretKey.from_file(file)
