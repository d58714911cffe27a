"""PgBouncer in the foreground, in front of a Postgres on loopback, with the settings of docs/how-to/postgres-clusters.md."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fixtures.readme import pieces, properties, statements
from tests.servers.debian import install
from tests.servers.nginx import SEARCH_PATH
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, listens, running

START_SECONDS_MAX = 20.0
_CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={upstream}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
{settings}
"""
_PAGE = (ROOT / "docs" / "how-to" / "postgres-clusters.md").read_text()


def role_settings(role: str) -> list[str]:
    """The statements of the page for a role whose connections go through PgBouncer."""
    return [statement.replace("icecore_server", role) for statement in statements(pieces(_PAGE)["role of a pooler"])]


def pgbouncer_program() -> str:
    """The program, installed from Debian's packages if it is missing."""
    if shutil.which("pgbouncer", path=SEARCH_PATH) is None:
        install("pgbouncer", wanted="PgBouncer")
    found = shutil.which("pgbouncer", path=SEARCH_PATH)
    assert found
    return found


@contextlib.contextmanager
def pgbouncer(upstream: int, pool_mode: str, *, user: str = "postgres", **settings: str) -> Iterator[int]:
    """PgBouncer in front of the server on port `upstream` for the length of the block. Yields its port.

    user -- may connect without a password.
    """
    folder, port = Path(tempfile.mkdtemp(prefix="icecore-pgbouncer-")), free_port()
    (folder / "users.txt").write_text(f'"{user}" ""\n')
    chosen = {**properties(pieces(_PAGE)["pgbouncer settings"]), "max_client_conn": "500", "pool_mode": pool_mode, **settings}
    lines = "\n".join(f"{name} = {value}" for name, value in chosen.items())
    (folder / "pgbouncer.ini").write_text(_CONFIGURATION.format(folder=folder, port=port, upstream=upstream, settings=lines))
    command = [pgbouncer_program(), str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:
        # PgBouncer does not run as root.
        folder.chmod(0o755)
        command = ["setpriv", "--reuid=nobody", "--clear-groups", *command]
    try:
        with running(command, log=folder / "pgbouncer.log", ready=lambda: listens(port), seconds_max=START_SECONDS_MAX):
            yield port
    finally:
        shutil.rmtree(folder, ignore_errors=True)
