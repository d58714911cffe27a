"""nginx with the configuration of docs/how-to/tls-proxy.md in front of Icecore."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
from pyiceberg.catalog import load_catalog

from tests.fixtures.readme import pieces
from tests.servers.certificates import Authority
from tests.servers.icecore import icecore
from tests.servers.nginx import nginx
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, listens

PAGE = pieces((ROOT / "docs" / "how-to" / "tls-proxy.md").read_text())
NAME = "catalog.example.org"
HOST_LINE = "proxy_set_header Host $host;"


class Proxied:
    """A catalog behind nginx, requested by the page's public name."""

    def __init__(self, port: int, authority: Path) -> None:
        self._port = port
        self._options = ["-sS", "--max-time", "30", "--cacert", str(authority), "--resolve", f"{NAME}:{port}:127.0.0.1"]

    def curl(self, path: str, *options: str, body: str | None = None) -> tuple[int, str]:
        """The status and the body of one request; a `body` is sent as JSON."""
        data = [] if body is None else ["--header", "Content-Type: application/json", "--data-binary", "@-"]
        done = subprocess.run(
            ["curl", *self._options, "--write-out", "\n%{http_code}", *options, *data, f"https://{NAME}:{self._port}{path}"],
            input=body, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 28), done.stderr
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text


@contextlib.contextmanager
def proxied(folder: Path, block: str, environment: dict[str, str] | None = None) -> Iterator[tuple[Proxied, int, Path]]:
    """Icecore with the page's setting and these, and nginx with this server block."""
    authority = Authority(folder / "certificates", "authority")
    issued = authority.issue(NAME)
    port, upstream = free_port(), free_port()
    public = PAGE["public url"].strip().partition("=")[2]
    replaced = {
        "127.0.0.1:8181": f"127.0.0.1:{upstream}", "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/catalog.pem": str(issued.certificate), "/etc/ssl/catalog.key": str(issued.key),
    }  # fmt: skip
    for old, new in replaced.items():
        assert old in block
        block = block.replace(old, new)
    with (
        icecore(folder / "data", port=upstream, environment={"ICECORE_PUBLIC_URL": public, **(environment or {})}),
        nginx(folder / "nginx", block, ready=lambda: listens(port)),
    ):
        yield Proxied(port, authority.file), port, authority.file


@pytest.fixture(scope="module")
def behind_nginx(scratch: Path) -> Iterator[tuple[Proxied, int, Path]]:
    with proxied(scratch, PAGE["nginx"]) as made:
        yield made


def test_pyiceberg_through_the_proxy(behind_nginx: tuple[Proxied, int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested namespaces too, whose levels are joined by %1F in paths."""
    _, port, authority = behind_nginx
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    catalog = load_catalog("icecore", type="rest", uri=f"https://127.0.0.1:{port}/catalog", warehouse="demo")
    catalog.create_namespace("town")
    catalog.create_namespace(("town", "north"), {"owner": "Ada"})
    assert [("town", "north")] == catalog.list_namespaces("town")
    assert "Ada" == catalog.load_namespace_properties(("town", "north"))["owner"]


def test_requests_to_the_public_name(behind_nginx: tuple[Proxied, int, Path]) -> None:
    """Icecore accepts the name, and %1F reaches it undecoded."""
    proxy, _, _ = behind_nginx
    for levels in (["shop"], ["shop", "south"]):
        status, response = proxy.curl("/catalog/v1/demo/namespaces", body=json.dumps({"namespace": levels}))
        assert 200 == status, response
    assert 200 == proxy.curl("/catalog/v1/demo/namespaces/shop%1Fsouth")[0]


def test_a_body_over_nginx_s_default(behind_nginx: tuple[Proxied, int, Path]) -> None:
    """2 MB reach Icecore, which responds in Iceberg's form."""
    proxy, _, _ = behind_nginx
    status, response = proxy.curl("/catalog/v1/demo/namespaces", body=json.dumps({"namespace": "x" * 2_000_000}))
    assert 400 == status
    assert "BadRequestException" == json.loads(response)["error"]["type"]


def test_events_arrive_while_the_stream_is_open(behind_nginx: tuple[Proxied, int, Path]) -> None:
    """curl's limit ends the stream; the events came before."""
    proxy, _, _ = behind_nginx
    status, response = proxy.curl("/history/v1/events", "--no-buffer", "--max-time", "3", "--header", "Accept: text/event-stream")
    assert 200 == status
    assert "warehouse.created.v1" in response


def test_without_the_host_line_icecore_refuses(scratch: Path) -> None:
    """nginx's default is the upstream's name, as the page says."""
    folder = scratch / "without"
    folder.mkdir()
    assert HOST_LINE in PAGE["nginx"]
    with proxied(folder, PAGE["nginx"].replace(HOST_LINE, "")) as (proxy, _, _):
        assert 403 == proxy.curl("/catalog/v1/config?warehouse=demo")[0]


def test_the_log_names_the_client_that_a_trusted_proxy_names(scratch: Path) -> None:
    """Not the one that a client names: nginx replaces its header. One that does not come through nginx is believed nothing."""
    folder = scratch / "trusted"
    folder.mkdir()
    setting, _, proxies = PAGE["trusted proxies"].strip().partition("=")
    with proxied(folder, PAGE["nginx"], {setting: proxies, "ICECORE_LOG_FORMAT": "json"}) as (proxy, _, _):
        spoofed = ("--header", "X-Forwarded-For: 192.0.2.1", "--header", "Forwarded: for=192.0.2.1")
        proxy.curl("/catalog/v1/demo/namespaces", "--interface", "127.0.0.2", *spoofed, body='{"namespace": ["through"]}')
        [direct] = re.findall(r"server 127.0.0.1:(\d+)", (folder / "nginx" / "nginx.conf").read_text())
        subprocess.run(
            ["curl", "-sS", "--interface", "127.0.0.3", *spoofed, "--header", "Content-Type: application/json",
             "--data-binary", '{"namespace": ["direct"]}', f"http://127.0.0.1:{direct}/catalog/v1/demo/namespaces"],
            capture_output=True, check=True,
        )  # fmt: skip
        lines = [json.loads(line) for line in (folder / "data.log").read_text().splitlines() if line.startswith("{")]
    assert ["127.0.0.2", "127.0.0.3"] == [line["client"] for line in lines if line.get("operation") == "createNamespace"]


def test_a_path_of_the_proxy_needs_no_header(scratch: Path) -> None:
    """Swagger UI and the documents have relative addresses."""
    folder = scratch / "path"
    folder.mkdir()
    below = PAGE["nginx"].replace("location / {", "location /lake/ {\n    rewrite ^/lake/(.*)$ /$1 break;")
    with proxied(folder, below) as (proxy, port, _):
        status, page = proxy.curl("/lake/swagger-ui", "--location", "--write-out", "%{url_effective}\n%{http_code}")
        assert (200, True) == (status, page.endswith(f"https://{NAME}:{port}/lake/swagger-ui/"))
        document = "/lake/api-docs/management/v1/openapi.json"
        [server] = json.loads(proxy.curl(document)[1])["servers"]
        assert f"https://{NAME}/lake" == urljoin(f"https://{NAME}{document}", server["url"]).removesuffix("/")
