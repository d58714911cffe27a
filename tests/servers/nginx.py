"""nginx in the foreground, with the server block of the page on TLS."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.servers.debian import install
from tests.servers.processes import running

START_SECONDS_MAX = 20.0
# Debian's nginx is not on every account's PATH.
SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin"
_CONFIGURATION = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{block}
}}
"""


def nginx_program() -> str:
    """The program, installed from Debian's packages if it is missing."""
    if shutil.which("nginx", path=SEARCH_PATH) is None:
        install("nginx-light", "nginx", wanted="nginx")
    found = shutil.which("nginx", path=SEARCH_PATH)
    assert found
    return found


@contextlib.contextmanager
def nginx(folder: Path, block: str, ready: Callable[[], bool]) -> Iterator[None]:
    """nginx with this server block for the length of the `with` block."""
    folder.mkdir()
    configuration = folder / "nginx.conf"
    # nginx's workers would run as `nobody` if started as root, and could not read the test's folder.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(_CONFIGURATION.format(folder=folder, user=user, block=block))
    command = [nginx_program(), "-c", str(configuration), "-e", str(folder / "error.log")]
    with running(command, log=folder / "nginx.log", ready=ready, seconds_max=START_SECONDS_MAX):
        yield
